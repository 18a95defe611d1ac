package planted

//lint:file-ignore S1002 all of this file

func FileIgnored(x bool) bool { return x == true }

func OthersAreNot(x []int) {
	for _ = range x { // want `S1005`
	}
}
