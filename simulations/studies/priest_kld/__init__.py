"""The study of PRIEST-KLD's sections 4 and 5.1-5.2: `make study`."""
