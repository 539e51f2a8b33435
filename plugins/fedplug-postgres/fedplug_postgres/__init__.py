"""Client state in a PostgreSQL database: ``fedplug.open_store("postgresql://user@host/database")``."""
