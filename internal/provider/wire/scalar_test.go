package wire_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/provider/wire"
)

func TestValuesAreReadInEveryForm(t *testing.T) {
	type answer struct {
		Text  wire.Text
		Upper wire.Upper
		Lower wire.Lower
		Int   *wire.Int
		Flag  *wire.Flag
		Time  wire.Time
	}
	for body, want := range map[string]string{
		`{"Text":"a b"}`: "a b", `{"Text":7}`: "7", `{"Text":true}`: "true", `{"Text":null}`: "", `{"Text":0042}`: "!",
		`{"Text":{}}`: "!", `{"Text":[1]}`: "!",
	} {
		var got answer
		err := json.Unmarshal([]byte(body), &got)
		if (err != nil) != (want == "!") || (err == nil && string(got.Text) != want) {
			t.Errorf("%s is the text %q, %v", body, got.Text, err)
		}
	}
	for body, want := range map[string]int64{
		`7`: 7, `"7"`: 7, `-7`: -7, `"-7"`: -7, `"+7"`: 7, `7.0`: 7, `"7.00"`: 7, `7e2`: 700, `" 007 "`: 7, `0`: 0, `"-0"`: 0,
		`9007199254740993`: 9007199254740993, `"9223372036854775807"`: 1<<63 - 1, `9.223372036854775807e18`: 1<<63 - 1,
	} {
		var got answer
		if err := json.Unmarshal([]byte(`{"Int":`+body+`}`), &got); err != nil || int64(*got.Int) != want {
			t.Errorf("%s is %v, %v, want %d", body, got.Int, err, want)
		}
	}
	for _, body := range []string{
		`7.5`, `"7.5"`, `""`, `" "`, `"7,000"`, `"0x7"`, `true`, `[]`, `9223372036854775808`, `1e999999999`,
		`"seven"`, `"--7"`,
	} {
		var got answer
		if err := json.Unmarshal([]byte(`{"Int":`+body+`}`), &got); err == nil {
			t.Errorf("%s is %d", body, *got.Int)
		}
	}
	for body, want := range map[string]bool{
		`true`: true, `"true"`: true, `"TRUE"`: true, `1`: true, `"1"`: true, `false`: false, `"False"`: false, `0`: false,
	} {
		var got answer
		if err := json.Unmarshal([]byte(`{"Flag":`+body+`}`), &got); err != nil || bool(*got.Flag) != want {
			t.Errorf("%s is %v, %v", body, got.Flag, err)
		}
	}
	var got answer
	body := `{"Text":null,"Upper":" usd ","Lower":"GOT_Resource","Int":null,"Flag":null,"Time":null}`
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.Upper != "USD" || got.Lower != "got_resource" ||
		got.Int != nil || got.Flag != nil || !got.Time.IsZero() {
		t.Errorf("%s is %+v, %v", body, got, err)
	}
	if err := json.Unmarshal([]byte(`{"Flag":"yes"}`), &got); err == nil {
		t.Error("yes is a flag")
	}
}

func TestTimesAreReadInEveryForm(t *testing.T) {
	want := time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC)
	for _, text := range []string{
		"2026-11-21T03:04:05Z", "2026-11-21T03:04:05+00:00", "2026-11-21T03:04:05+0000", "2026-11-21T05:04:05+02",
		"2026-11-20T22:04:05-0500", "2026-11-21T03:04:05", "2026-11-21 03:04:05", "2026-11-21 03:04:05 UTC",
		"2026-11-21 05:04:05 +0200", "2026-11-21t03:04:05z", "2026-11-21T03:04:05.000Z", "2026-11-21T03:04:05,000",
		" 2026-11-21T03:04:05.000000000+00:00 ", "1795230245", "1795230245000",
	} {
		if at, ok := wire.ParseTime(text); !ok || !at.Equal(want) || at.Location() != time.UTC {
			t.Errorf("%q is %s, %v", text, at, ok)
		}
	}
	if at, ok := wire.ParseTime("2026-11-21T03:04+00:00"); !ok || !at.Equal(want.Truncate(time.Minute)) {
		t.Errorf("without seconds: %s, %v", at, ok)
	}
	if at, ok := wire.ParseTime("2026-11-21T03:04:05.25"); !ok || !at.Equal(want.Add(time.Second/4)) {
		t.Errorf("with a fraction: %s, %v", at, ok)
	}
	for _, text := range []string{
		"", "soon", "0001-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "21.11.2026", "2026-11-21T25:00:00Z", "12345", "9",
	} {
		if at, ok := wire.ParseTime(text); ok {
			t.Errorf("%q is %s", text, at)
		}
	}
}
