"""What happens, as facts. The log reads them, and so do the app's own `readers`."""
