"""Nodes as data: what a file may say, and what is said of a file that cannot be used."""

from pathlib import Path

import pytest

from longmemeval.errors import HarnessError
from longmemeval.memory.nodes.library import load_nodes, parsed_node, shipped_nodes
from longmemeval.memory.nodes.schema import filled

PLANT = """
name: plant
summary: a plant somebody keeps
fields:
  plant: {required: true, about: its kind}
  place: {type: choice, choices: [indoors, outdoors]}
  bought: {type: date}
prompt: Write down the plants.
embed: "{plant}[, {place}][ ({bought})]"
rules:
  - match: "<I did>(?:bought|planted) (?:an?|some) (?P<plant>\\\\w+ ?(?:fern|cactus|roses))"
    fields: {plant: "{plant}"}
"""


def test_the_shipped_nodes_are_four() -> None:
    assert [node.name for node in shipped_nodes().nodes] == [
        "attribute",
        "life-process",
        "relationship",
        "temporal-event",
    ]
    assert all(node.rules and node.prompt and node.summary for node in shipped_nodes().nodes)


def test_a_folder_takes_the_place_of_the_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "plant.yaml").write_text(PLANT)
    (tmp_path / "event.yml").write_text("extends: temporal-event\nsummary: what happened\n")
    (tmp_path / "notes.txt").write_text("not a node")
    nodes = load_nodes(str(tmp_path))
    assert [node.name for node in nodes.nodes] == ["plant", "temporal-event"]
    assert nodes.node("temporal-event").rules == shipped_nodes().node("temporal-event").rules
    assert nodes.key != shipped_nodes().key
    (tmp_path / "plant.yaml").write_text(PLANT.replace("Write down the", "List all"))
    assert load_nodes(str(tmp_path)).key != nodes.key


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("summary:", "sumary:", "Unknown key 'sumary' (plant.yaml, line 3: sumary). Did you mean 'summary'?"),
        ("embed:", "embedd:", "Did you mean 'embed'?"),
        ("required: true,", "requird: true,", "(plant.yaml, line 5: fields.plant.requird). Did you mean 'required'?"),
        (
            "type: choice",
            "type: chioce",
            "'chioce' (plant.yaml, line 6: fields.place.type). Did you mean 'choice'?",
        ),
        ("type: date", "type: text, choices: [a]", "`choices` are required for a field of `type: choice`"),
        ("{plant}[,", "{plnt}[,", "embed: unknown name 'plnt' (plant.yaml). Did you mean 'plant'?"),
        ("[, {place}]", "[, {place}", "embed: square brackets must pair"),
        ("<I did>", "<I dit>", "rules[0].match: unknown word 'I dit' (plant.yaml). Did you mean 'I did'?"),
        ("(?:an?|some)", "(?:an?|some", "rules[0].match: missing ), unterminated subpattern"),
        ('fields: {plant: "{plant}"}', 'fields: {plat: "{plant}"}', "rules[0].fields: unknown name 'plat'"),
        ('fields: {plant: "{plant}"}', 'fields: {plant: "{kind}"}', "rules[0].fields.plant: unknown name 'kind'"),
        ('fields: {plant: "{plant}"}', "fields: {place: indoors}", "the required field 'plant' is not set"),
        ("prompt: Write down the plants.", "", "The key 'prompt' is missing"),
        ("name: plant", "name: My Plant", "a name has small letters, digits and hyphens"),
        ("  plant: {required", "  evidence: {required", "fields.evidence: the harness fills in this field itself"),
        ("required: true,", "", "at least one must be `required: true`"),
        (
            "\nname:",
            "\nextends: temporal-events\nname:",
            "Unknown shipped node 'temporal-events' (plant.yaml, line 2: extends)",
        ),
        ("\nname:", "\n- name:", "The node is not YAML"),
        ("rules:", "filters: {time: place}\nrules:", "filters.time: 'place' is not a field of type date"),
        ("rules:", "filters: {people: [owner]}\nrules:", "filters.people: unknown name 'owner'"),
        ("rules:", "words: {a: <b>, b: <a>}\npick: {place: {indoors: <a>}}\nrules:", "refer to each other in a circle"),
        ("rules:", "pick: {place: {garden: x}}\nrules:", "pick.place: unknown name 'garden'"),
    ],
)
def test_what_is_wrong_is_told_with_file_key_and_nearest_name(old: str, new: str, told: str) -> None:
    assert old in PLANT
    with pytest.raises(HarnessError) as caught:
        parsed_node(PLANT.replace(old, new).encode(), "plant.yaml")
    assert told in str(caught.value)
    assert "plant.yaml" in str(caught.value)


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="cannot be read: No such file"):
        load_nodes(str(tmp_path / "none"))
    with pytest.raises(HarnessError, match="holds no nodes"):
        load_nodes(str(tmp_path))
    (tmp_path / "a.yaml").write_text(PLANT)
    (tmp_path / "b.yaml").write_text(PLANT)
    with pytest.raises(HarnessError, match="Two files define the node 'plant'"):
        load_nodes(str(tmp_path))
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HarnessError, match=r"The node is not YAML.*b\.yaml"):
        load_nodes(str(tmp_path))


def test_a_template_leaves_out_what_is_empty() -> None:
    template = "{who} ran[ in {place}][ ({day})]"
    assert filled(template, {"who": "Anna", "place": "Rome", "day": ""}) == "Anna ran in Rome"
    assert filled(template, {"who": "Anna"}) == "Anna ran"
