"""The engine as prepared in a fixture."""

from longmemeval.memory.engram.engine import Engine, episode_of
from longmemeval.memory.engram.part import FACTS
from longmemeval.storage.fixture import Fixture


def prepared_engine(fixture: Fixture) -> Engine:
    """Return an engine with the facts of a fixture, for queries; without claims it cannot learn more.

    Raises:
        FixtureError: the fixture has no facts.
    """
    engine = Engine()
    engine.episodes = [episode_of(message) for message in fixture.memory.messages]
    engine.ledger.restore((), fixture.part(FACTS).facts)
    return engine
