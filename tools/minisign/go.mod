module github.com/roamcard/roamcard/tools/minisign

go 1.26.3

tool aead.dev/minisign/cmd/minisign

require (
	aead.dev/minisign v0.3.0 // indirect
	golang.org/x/crypto v0.13.0 // indirect
	golang.org/x/sys v0.12.0 // indirect
	golang.org/x/term v0.12.0 // indirect
)
