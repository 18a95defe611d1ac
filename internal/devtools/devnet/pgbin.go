package devnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// pgBinaries is one installed PostgreSQL.
type pgBinaries struct {
	dir   string
	major int
	who   account // as whom it has been seen to run
}

func (b pgBinaries) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(b.dir, pgProgram(program)), args...)
	cmd.Dir = "/" // the account may not be able to enter the present one
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	runAs(cmd, b.who)
	return cmd
}

// FindPostgres returns the folder of the PostgreSQL programs that a new database would run with.
func FindPostgres() (string, error) {
	accounts, err := accountsFor(filepath.Join(os.TempDir(), "no-such-data"), os.TempDir())
	if err != nil {
		return "", err
	}
	found, err := findPostgres("", 0, accounts)
	return found.dir, err
}

// findPostgres returns the first PostgreSQL that runs as one of the accounts, of the wanted major version when that is
// not 0, and of the folder when one is given. Its error lists what it tried.
func findPostgres(programs string, major int, accounts []account) (pgBinaries, error) {
	var tried []string
	for _, who := range accounts {
		for _, dir := range pgFolders(programs) {
			found, err := versionOf(dir, who)
			switch {
			case err != nil:
				tried = append(tried, fmt.Sprintf("%s: %v", dir, err))
			case major != 0 && found != major:
				tried = append(tried, fmt.Sprintf("%s: is version %d", dir, found))
			default:
				return pgBinaries{dir: dir, major: found, who: who}, nil
			}
		}
	}
	what := "PostgreSQL 15 or later"
	if major != 0 {
		what = fmt.Sprintf("PostgreSQL %d, which made the data folder", major)
	}
	if len(tried) == 0 {
		tried = []string{"none is installed"}
	}
	slices.Sort(tried)
	return pgBinaries{},
		fmt.Errorf("find %s: run `make setup`, or `apt install postgresql`, or `brew install postgresql`, "+
			"or set ROAMCARD_PG_BIN to the folder of its programs, or name a running server (%s)%s",
			what, strings.Join(slices.Compact(tried), "; "), rootAdvice(accounts))
}

// rootAdvice explains the failures that only root sees.
func rootAdvice(accounts []account) string {
	if accounts[0].mode == asSelf {
		return ""
	}
	return "; PostgreSQL does not run as root, and an unprivileged user must be able to enter both its programs' folder" +
		" and the data folder: run as an ordinary user, or use folders outside root's home"
}

// pgFolders lists the folders that may hold PostgreSQL's programs, best first. A folder that is given excludes all
// others, and so does ROAMCARD_PG_BIN.
func pgFolders(only string) []string {
	if only != "" {
		return []string{only}
	}
	if dir := os.Getenv("ROAMCARD_PG_BIN"); dir != "" {
		return []string{dir}
	}
	var dirs []string
	platform := npmPlatform(nil, map[string]string{"amd64": "x64"})
	for _, modules := range npmModules() {
		dirs = append(dirs, filepath.Join(modules, "@embedded-postgres", platform, "native", "bin"))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, _ := filepath.Glob(pattern) // errs on a malformed pattern only
		slices.Reverse(found)              // newest first
		dirs = append(dirs, found...)
	}
	var installed []string
	for _, dir := range dirs {
		_, err := os.Stat(filepath.Join(dir, pgProgram("postgres")))
		if err == nil && !slices.Contains(installed, dir) {
			installed = append(installed, dir)
		}
	}
	return installed
}

var pgVersionPattern = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

const oldestMajor = 15

// versionOf runs the PostgreSQL in dir as the account and returns its major version.
func versionOf(dir string, who account) (int, error) {
	if err := fixSymlinks(filepath.Dir(dir)); err != nil {
		return 0, err
	}
	out, err := pgBinaries{dir: dir, who: who}.command("postgres", "--version").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return 0, err
	}
	match := pgVersionPattern.FindSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("unknown version %q", strings.TrimSpace(string(out)))
	}
	major, err := strconv.Atoi(string(match[1]))
	if err == nil && major < oldestMajor {
		err = fmt.Errorf("version %d is too old", major)
	}
	return major, err
}

// fixSymlinks makes the library links that npm's archives cannot hold and its install script makes, when that script
// was not allowed to run. Folders that did not come from npm are left alone.
func fixSymlinks(native string) error {
	list, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read library links: %w", err)
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(list, &links); err != nil {
		return fmt.Errorf("read library links: %w", err)
	}
	for _, link := range links {
		// Both are relative to the package, the folder above native, and may not leave it.
		if !filepath.IsLocal(link.Source) || !filepath.IsLocal(link.Target) {
			return fmt.Errorf("library link %q leaves its package", link.Target)
		}
		target := filepath.Join(filepath.Dir(native), link.Target)
		source, err := filepath.Rel(filepath.Dir(link.Target), link.Source)
		if err != nil {
			return fmt.Errorf("link library: %w", err)
		}
		if err := os.Symlink(source, target); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("link library: %w", err)
		}
	}
	return nil
}

func pgProgram(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}
