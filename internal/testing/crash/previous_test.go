package crash_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// The program of the release before sells next to this one on one database, which this one has migrated. Each has a
// server and a worker, buyers ask both in turn, and each process takes up what the other one left when it ends.
func TestPreviousReleaseSellsNextToThisOne(t *testing.T) {
	tortures(t)
	ref, why := previousRelease(t)
	if ref == "" {
		t.Skip(why)
	}
	older := buildOf(t, ref)
	w := newWorld(t)
	w.migrates(t)
	olderAddr := apptest.FreeAddr(t)
	before := w.launchService(t, older, olderAddr, "serve")
	after := w.launchService(t, apptest.Binary(t), w.addr, "serve")
	buyers := w.crowd(t, 6, w.addr, olderAddr)
	buyers.await(18)
	// The older one is replaced while it is at work, as an upgrade does.
	buyers.addrs.Store([]string{w.addr})
	before.Stop(t)
	buyers.await(6)
	all := buyers.ends()
	w.waitIdle(t)
	after.Stop(t)
	byOlder := 0
	for _, b := range all {
		if b.begunAt == olderAddr {
			byOlder++
		}
	}
	report("%s next to this program: %d of %d purchases were begun at the former; none was lost", ref, byOlder, len(all))
	if byOlder == 0 || byOlder == len(all) {
		t.Errorf("%d of %d purchases were begun at the older program", byOlder, len(all))
	}
	w.haveOnce(t, all)
	w.checkBooks(t)
}

// previousRelease is the ref whose program a deployment replaces by this one: what ROAMCARD_PREVIOUS says, the newest
// tag, or, before there is a release, the oldest commit with the migrations of today: an older program does not know
// this database. why says why there is none.
func previousRelease(t *testing.T) (ref, why string) {
	t.Helper()
	if ref := os.Getenv("ROAMCARD_PREVIOUS"); ref != "" {
		return ref, ""
	}
	if _, err := git(t, "rev-parse", "--git-dir"); err != nil {
		return "", "not a clone, so there is no release before this one; set ROAMCARD_PREVIOUS"
	}
	if tag, err := git(t, "describe", "--tags", "--match", "v*", "--abbrev=0", "HEAD"); err == nil {
		return tag, ""
	}
	if shallow, err := git(t, "rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		return "", "a shallow clone without a tag: fetch more of it, or set ROAMCARD_PREVIOUS"
	}
	if changed, err := git(t, "status", "--porcelain", "--", "ent/migrate/migrations"); err != nil || changed != "" {
		return "", "the migrations are changed and not committed: no commit's program knows this database"
	}
	ref, err := git(t, "log", "-1", "--format=%H", "--", "ent/migrate/migrations")
	if err != nil || ref == "" {
		return "", "no commit has these migrations"
	}
	if head, err := git(t, "rev-parse", "HEAD"); err != nil || head == ref {
		return "", "no older commit has these migrations"
	}
	return ref, ""
}

// buildOf builds the program of a ref.
func buildOf(t *testing.T, ref string) (program string) {
	t.Helper()
	dir := t.TempDir()
	tree, archive := filepath.Join(dir, "tree"), filepath.Join(dir, "tree.tar")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := git(t, "archive", "--output", archive, ref); err != nil {
		t.Fatalf("the files of %s: %v %s", ref, err, out)
	}
	shell(t, "tar", "-x", "-C", tree, "-f", archive)
	program = filepath.Join(dir, "roamcard")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, "./cmd/roamcard")
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", ref, err, out)
	}
	return program
}

// git asks the repository that the tests are in.
func git(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", errors.New("no repository here")
	}
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = strings.TrimSpace(string(root))
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
