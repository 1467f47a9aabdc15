"""Faults on real nodes with replicas, alone and in pairs, under clients that remember every answer."""
