"""FactConsolidation of MemoryAgentBench (Hu et al. 2025): lists of facts in which later ones overrule earlier ones."""
