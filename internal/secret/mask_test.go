package secret

import (
	"strings"
	"testing"
)

func TestMaskHidesWhatMayBeSecretInAnAddress(t *testing.T) {
	const key = "0a1b2c3d4e5f60718293"
	for text, want := range map[string]string{
		"no address: a:b@c?d=e":                       "no address: a:b@c?d=e",
		"https://api.example.com":                     "https://api.example.com",
		"https://api.example.com:8443/platform/v2/":   "https://api.example.com:8443/platform/v2/",
		"https://lists.example/api/sanctions-list/a/": "https://lists.example/api/sanctions-list/a/",
		"https://u:hunter2@a.example/b":               "https://[redacted]@a.example/b",
		"https://hunter2@a.example":                   "https://[redacted]@a.example",
		"https://a.example/v2/" + key:                 "https://a.example/v2/[redacted]",
		"https://a.example/v2/abcdefghijklmnopqrstuv": "https://a.example/v2/[redacted]",
		"https://a.example/v2/" + key + "/logs":       "https://a.example/v2/[redacted]/logs",
		"https://a.example/b?key=hunter2&x":           "https://a.example/b?key=[redacted]&x",
		"https://a.example/?" + key:                   "https://a.example/?[redacted]",
		"https://a.example?token=hunter2@b":           "https://[redacted]",
		"https://a.example/b#hunter2":                 "https://a.example/b#[redacted]",
		"postgres://r:hunter2@p:5432,s:5432/r?sslmode=require": "postgres://[redacted]@p:5432,s:5432/r?" +
			"sslmode=[redacted]",
		"postgres://r:hun/ter2@db/r":     "postgres://[redacted]",
		"postgres://r:hun?ter2@db/r":     "postgres://[redacted]",
		"https://hunter2:word/":          "https://[redacted]",
		"http://[::1]:8545/a, then":      "http://[::1]:8545/a, then",
		"https://a/b,https://u:p@c/d":    "https://a/b,https://[redacted]@c/d",
		`Get "https://u:p@c/d?e=f": EOF`: `Get "https://[redacted]@c/d?e=[redacted]": EOF`,
		"ask https://a.example: refused": "ask https://a.example: refused",
	} {
		if got := Mask(text); got != want {
			t.Errorf("%s\nis %s\nwant %s", text, got, want)
		}
	}
}

func TestMaskListHidesWholeValues(t *testing.T) {
	for list, want := range map[string]string{
		"":                                "",
		"20s":                             "20s",
		"/etc/list,https://u:p@a.example": "/etc/list,https://[redacted]@a.example",
		"https://a.example, https://b.example/c?d=e":      "https://a.example, https://b.example/c?d=[redacted]",
		"https://u:pass,word@a.example":                   Redacted,
		"https://u:pass word@a.example":                   Redacted,
		"https://a.example,https://u:pass'word@b.example": "https://a.example," + Redacted,
		"see https://u:p@a.example, or call":              "see https://[redacted]@a.example, or call",
	} {
		if got := MaskList(list); got != want {
			t.Errorf("%s\nis %s\nwant %s", list, got, want)
		}
	}
}

func FuzzMaskKeepsNoPassword(f *testing.F) {
	f.Add("hunter2")
	f.Add("a/b?c#d@e:f,g")
	f.Fuzz(func(t *testing.T, password string) {
		// What begins or ends a URL, and what is in the rest of it, shows nothing.
		if len(password) < 4 || strings.Contains("https://user:@a.example/"+Redacted, password) {
			return
		}
		if got := MaskList("https://user:" + password + "@a.example/"); strings.Contains(got, password) {
			t.Errorf("%q shows in %s", password, got)
		}
	})
}
