"""What Prometheus and probes see of workers: counted in each process, served on one port."""
