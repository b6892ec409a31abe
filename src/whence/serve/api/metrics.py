"""Figures for Prometheus: how much is asked and how long it takes. No name of a dataset, column or run is in them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from whence.version import __version__

_METHODS = ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route")
        self._requests = Counter(
            "whence_requests", "Requests that were answered.", (*labels, "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "whence_request_seconds", "How long answers took.", labels, buckets=_SECONDS, registry=self._registry
        )
        info = Gauge("whence_info", "The version that runs.", ("version",), registry=self._registry)
        info.labels(__version__).set(1)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """`route` is the route's pattern, never the address that was asked for."""
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def told(self) -> bytes:
        return generate_latest(self._registry)
