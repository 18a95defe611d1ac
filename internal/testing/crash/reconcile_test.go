package crash_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// The command compares the books itself and asks a running service to; the test checks what scripts see, the exit code
// and the JSON.
func TestReconcileOnTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.buyer(t)
	p := w.start(t, relayer, "")
	ready := w.readyFile()
	if err := b.challenge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.ends(t, b, b.sign(t), time.Now())
	w.rpc(t, "anvil_mine", "0x4")

	agree := func(args ...string) {
		t.Helper()
		out, code := w.reconcile(t, args...)
		if code != 0 || !strings.Contains(out, "the books agree") || !strings.Contains(out, "treasury:usdc") {
			t.Errorf("reconcile %v ended with %d:\n%s", args, code, out)
		}
	}
	agree()
	agree("--ready-file", ready)

	payTo, err := hex.DecodeString(w.books.PayTo[2:])
	if err != nil {
		t.Fatal(err)
	}
	b.send(t, slices.Concat(selector("transfer(address,uint256)"), word(payTo), word([]byte{7})))
	w.rpc(t, "anvil_mine", "0x4")
	const differ = 6
	out, code := w.reconcile(t)
	if code != differ || strings.Count(out, "transfer_unmatched: ") != 1 || !strings.Contains(out, "differences: 1") {
		t.Errorf("an unmatched transfer: ended with %d:\n%s", code, out)
	}
	var reports [2]json.RawMessage
	for i, args := range [][]string{{"--json"}, {"--json", "--ready-file", ready}} {
		out, code := w.reconcile(t, args...)
		var report struct {
			Checked  struct{ Payments, Transfers, Postings int }
			Findings json.RawMessage
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil || code != differ {
			t.Fatalf("reconcile %v ended with %d, %v:\n%s", args, code, err, out)
		}
		// Recent changes are read again.
		if report.Checked.Payments < 1 || report.Checked.Transfers < 2 || report.Checked.Postings < 4 {
			t.Errorf("reconcile %v: checked %+v", args, report.Checked)
		}
		reports[i] = report.Findings
	}
	if !bytes.Equal(reports[0], reports[1]) {
		t.Errorf("by the command: %s\nby the service: %s", reports[0], reports[1])
	}

	conn, err := pgx.Connect(t.Context(), w.books.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), "UPDATE payments SET value = value - 1"); err != nil {
		t.Fatal(err)
	}
	if out, code := w.reconcile(t); code != differ || !strings.Contains(out, "payment_differs: ord_") ||
		!strings.Contains(out, "the sales that they concern stay closed") {
		t.Errorf("a payment of another amount: ended with %d:\n%s", code, out)
	}
	p.stop(t)
	if out, code := w.reconcile(t, "--ready-file", ready); code != 1 || !strings.Contains(out, "is it running?") {
		t.Errorf("a server that is gone: ended with %d:\n%s", code, out)
	}
	if out, code := w.reconcile(t, "--nonsense"); code != 2 {
		t.Errorf("a flag that is none: ended with %d:\n%s", code, out)
	}
}

// reconcile runs the command while the world's service runs.
func (w *world) reconcile(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), apptest.Binary(t), append([]string{"reconcile"}, args...)...)
	cmd.Env = append(apptest.Environ(),
		"ROAMCARD_ENVIRONMENT=sandbox", "ROAMCARD_BASE_URL=http://"+w.addr, "ROAMCARD_DATABASE__URL="+w.books.DatabaseURL,
		"ROAMCARD_CHAIN__RPC_URL="+w.books.RPCURL, "ROAMCARD_PAYMENT__PAY_TO="+w.books.PayTo,
		"ROAMCARD_RELAYER__KEYS="+devnet.WalletsOf(devnet.RoleRelayer)[0].PrivateKey,
		"ROAMCARD_ISSUER__URL="+w.books.SandboxURL, "ROAMCARD_ISSUER__KEY="+sandbox.DevKey,
		"ROAMCARD_SUPPLIER__URL="+w.books.SandboxURL, "ROAMCARD_SUPPLIER__KEY="+sandbox.DevKey,
		"ROAMCARD_ESIM__KEYS=k1:"+strings.Repeat("5a", 32), "ROAMCARD_ESIM__TOKEN_KEY="+strings.Repeat("5a", 32),
		"ROAMCARD_QUOTE__KEY="+strings.Repeat("5a", 32),
	)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			t.Fatalf("run the command: %v", err)
		}
	}
	if slices.Contains(args, "--json") {
		return stdout.String(), cmd.ProcessState.ExitCode()
	}
	return stdout.String() + stderr.String(), cmd.ProcessState.ExitCode()
}
