"""The choice among the strategies. Not built yet."""
