"""The planner, as a table, as laws, and as a state machine of gangs."""
