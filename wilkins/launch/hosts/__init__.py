"""The launch over several hosts: a head that directs, and on each host a keeper of what runs there."""
