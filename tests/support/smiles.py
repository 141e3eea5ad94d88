"""SMILES strings of 350 small molecules: left group, ring, ethylene and right group."""

from itertools import product

LEFT = ("C", "CC", "CO", "N", "CN(C)", "FC(F)(F)", "C#CC", "N#CC", "O=C(O)C", "CS")
RINGS = ("c1ccc({})cc1", "c1cc({})cnc1", "C1CCN({})CC1", "c1cc2c(cc1{})[nH]cc2", "C1CC1{}")
RIGHT = ("C(=O)O", "S(=O)(=O)N", "[N+](=O)[O-]", "OCC", "C(=O)NCC", "Br", "P(=O)(O)O")
SMILES = [left + ring.format("CC" + right) for left, ring, right in product(LEFT, RINGS, RIGHT)]
