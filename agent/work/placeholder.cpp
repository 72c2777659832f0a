// placeholder until the floor's first file
