"""Small tools every room uses: checks of arguments, progress, text, rows, folders, versions, Legendre polynomials."""
