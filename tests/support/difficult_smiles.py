"""SMILES of kinds that graphs describe incompletely or that RDKit reads in unusual ways."""

KINDS = {
    "explicit hydrogens": [
        "[H]/[NH+]=C/c1ccccc1", "[H]/N=C(/C)CCO", r"[H]/N=C(\N)c1ccccc1", "[H]/C(C)=C/CN",
        "[H]/N=N/CCO", "[H]OCC", "[H][C@](C)(N)CO", "[H]c1ccccc1CO", "[H][N]CCO",
    ],
    "isotopes": ["[2H]C([2H])([2H])CCO", "[13CH3]c1ccc(O)cc1", "[13C]([2H])(C)(C)O", "[3H]OCCN",
                 "OCC[15NH2]", "[18F]CCCN"],
    "stereo": ["OC[C@@H](N)C(=O)O", "F/C=C/CCN", r"F/C=C\CCN", "C[S@](=O)CCN"],
    "charges": ["C[N+](C)(C)CCO", "[O-]C(=O)c1ccccc1N", "[NH3+]CC(=O)[O-]", "[O-][n+]1ccccc1CCO",
                "C1CC1[N+]#[C-]", "OS(=O)(=O)CCN=[N+]=[N-]", "[CH2-]CCO"],
    "radicals": ["C[CH]CCO", "CC[O]", "[CH2]CCc1ccccc1", "CN([O])C"],
    "metals": ["C[Hg]CCO", "CC[Mg]Br", "[Fe]CCO", "N->[Fe]CCO", "Cl[Pt](Cl)(N)N",
               "CCN->[Pt](Cl)(Cl)<-NCC", "C[Sn](C)(C)c1ccccc1", "[H][Pt](Cl)CCO"],
    "salts": ["[Na+].[O-]C(=O)CCO", "CC.O.CCO", "[BH4-].[Na+]", "[H+].[Cl-]"],
    "atom maps": ["[CH3:1][CH2:2][OH:3]", "[NH2:5]c1cc[cH:7]cc1", "[H:9]OCC"],
    "dummy atoms": ["*CCO", "*c1ccccc1O", "[1*]CCN[2*]", "[H]*CCO"],
    "aromatic": ["c1cc[nH]c1", "c1ccc2[nH]ccc2c1CCO", "O=c1cc[nH]cc1", "c1ccccc1-c1ccccc1",
                 "[nH]1nnnc1CCO", "C[n+]1ccccc1CCN"],
    "main group": ["C[Si](C)(C)CCO", "CP(=O)(O)OCC", "FS(F)(F)(F)(F)CCO", "OB(O)c1ccccc1",
                   "C[Te]CCN", "[SeH]CCO", "O=[Cl](=O)(=O)OCC", "F[P-](F)(F)(F)(F)F"],
}  # fmt: skip
DIFFICULT = tuple(text for texts in KINDS.values() for text in texts)
