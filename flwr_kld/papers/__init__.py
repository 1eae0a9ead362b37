"""The three papers' own algorithms, as baselines for studies: nobody else imports them."""
