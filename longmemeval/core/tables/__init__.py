"""Tables of columns over records, fitted to a terminal and written as text, HTML, Markdown, LaTeX and CSV."""
