"""Where a run of `retrieval` keeps its rankings, one `Ranking` per line."""

RANKINGS = "rankings.jsonl"
