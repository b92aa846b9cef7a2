"""What a cluster must do: one module an area of the certified contract, checks only."""
