"""Virtual handwriters: any number of clients from a small source of real handwriting."""
