"""What the API has, a module each: models of parameters, bodies and answers, and small handlers."""
