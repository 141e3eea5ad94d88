"""Texts that do harm where they are not escaped."""

TEXTS = (
    "<script>alert(1)</script>",
    "](javascript:alert(1)) [x](javascript:alert(2))",
    "![x](http://host/y.png) <http://host> &lt;b&gt;",
    "a | b |\n|---|---|\n| c | d |",
    "---\nlicense: mit\n---",
    "\n# Heading\n- item\n1. item\n> quote\n```\ncode",
    "`code` ``code`` ```",
    '"', "'", ": ", "#", "- ", "a: b # c", "\\", "$x$", "{}[]&*!|>%@",
    "=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "-1.5",
    "=cmd|' /C calc'!A0",
    "> <name>", "$$$$", "M  END\n$$$$\n", ">  <name>  (1)\n3",
    "\x1b[2J\x1b]0;title\x07", "\x9b31m", "\x00", "\x7f", "\u202egnp.exe", "\u2066\u2069", "\u2028",
    "a\r\nError: b", "a\nok  /path", "\ufeff", "\x85", "\x0b\x0c",
    "yes", "null", "1e5", "0x10", "12:30:45", "2001-01-01", "~", "", " ",
    "😀 👩\u200d👩\u200d👧", "é", "x" * 10_000,
)  # fmt: skip
