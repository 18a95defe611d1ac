package app_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/roamcard/roamcard/internal/app"
)

func TestDatabaseSettingsThatCannotWorkAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		more map[string]string
		says string
	}{
		"usual": {},
		"behind a pooler": {more: map[string]string{
			"database.url": "postgres://u:hunter2@pooler:6432/d", "database.listen_url": "postgres://u:hunter2@server/d",
			"database.max_conns": "40", "database.query_mode": "cache_describe",
		}},
		"too few connections":  {map[string]string{"database.max_conns": "3"}, "3 is not within 4 and 500"},
		"too many connections": {map[string]string{"database.max_conns": "501"}, "501 is not within 4 and 500"},
		"no number":            {map[string]string{"database.max_conns": "many"}, `"many" is not a positive number`},
		"an unknown mode":      {map[string]string{"database.query_mode": "exec"}, "none of cache_statement, cache_describe"},
		"a mode that does not work": {map[string]string{
			"database.url": "postgres://u:hunter2@h/d?default_query_exec_mode=simple_protocol",
		}, "default_query_exec_mode=simple_protocol does not work"},
		"two modes": {map[string]string{
			"database.url":        "postgres://u:hunter2@h/d?default_query_exec_mode=cache_statement",
			"database.query_mode": "cache_describe",
		}, "is cache_describe, but database.url says cache_statement"},
		"another who owns": {more: map[string]string{
			"database.url": "postgres://u:hunter2@h/d", "database.owner_url": "postgres://o:hunter2@h/d",
		}},
		"who owns serves": {map[string]string{
			"database.url": "postgres://u:hunter2@h/d", "database.owner_url": "postgres://u:hunter2@other/d",
		}, `database.owner_url: has the user of database.url, "u"`},
		"no URL of who owns": {map[string]string{"database.owner_url": "postgres://u:hunter2@h:x/d"},
			"database.owner_url: is not a URL"},
		"no URL to listen at": {map[string]string{"database.listen_url": "postgres://u:hunter2@h:x/d"},
			"database.listen_url: is not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			more := map[string]string{"relayer.keys": "0x" + strings.Repeat("1f", 32)}
			maps.Copy(more, c.more)
			text, err := yaml.Marshal(settlementSettings(more))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "roamcard.yaml")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = app.CheckConfig(file, false, &out)
			said := out.String()
			if (err == nil) != (c.says == "") || !strings.Contains(said, c.says) || strings.Contains(said, "hunter2") {
				t.Errorf("%v, says %s", err, said)
			}
		})
	}
}
