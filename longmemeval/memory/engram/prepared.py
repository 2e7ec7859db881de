"""The engine as a fixture holds it."""

from longmemeval.memory.engram.engine import Engine, episode_of
from longmemeval.memory.engram.part import FACTS
from longmemeval.storage.fixture import Fixture


def prepared_engine(fixture: Fixture) -> Engine:
    """The engine that came to the facts of a fixture, to be asked; it has no claims to learn more from.

    Raises:
        FixtureError: the fixture has no facts.
    """
    engine = Engine()
    engine.episodes = [episode_of(one) for one in fixture.memory.messages]
    engine.ledger.restore((), fixture.part(FACTS).facts)
    return engine
