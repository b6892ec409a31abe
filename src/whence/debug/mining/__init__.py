"""Mining lineage for operators and records that stand out (Newt, sections 4.1 and 7.3.1)."""
