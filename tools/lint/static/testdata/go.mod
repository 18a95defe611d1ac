module planted

go 1.26.0
