package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/agent/install"
	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/secret/custody"
)

// installing is one run of `mcp install`.
type installing struct {
	b                *buyer
	cmd              *cobra.Command
	client           install.Client
	entry            install.Entry
	file, settings   string
	maxUSD, maxDay   string
	signer, mode     string
	yes, print, only bool
}

func (b *buyer) mcpInstall() *cobra.Command {
	i := &installing{b: b}
	var client, command string
	cmd := &cobra.Command{
		Use: "install", Args: noArgs,
		Short: "Enter the paying MCP server in the settings of an agent's program, after showing what changes",
		Long: "Shows the entry and the file it goes to, asks, and writes it; everything else in the file stays as it is, " +
			"and a copy of it\n" +
			"is kept. Run again, it changes nothing. Claude Code gets the entry by `claude mcp add`, or in .mcp.json without " +
			"that program.\n" +
			"Where there are no settings of the server yet, it writes some to begin with: the service's payee and token as " +
			"they are\n" +
			"published now, human approval unless --mode says otherwise, and caps. No key goes into any of these files.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if i.client, err = install.Find(client); err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			if i.cmd, i.entry.Command = cmd, command; command == "" {
				if i.entry.Command, err = ourselves(); err != nil {
					return err
				}
			}
			return i.run()
		},
	}
	f := cmd.Flags()
	f.StringVar(&client, "client", "", "the program: "+strings.Join(install.Names(), ", "))
	f.BoolVar(&i.yes, "yes", false, "do not ask")
	f.BoolVar(&i.print, "print", false, "print the entry, and change nothing")
	f.BoolVar(&i.only, "no-settings", false, "write the program's entry alone")
	f.StringVar(&i.file, "file", "",
		"the program's file (default: where it looks for it; for vscode and claude in this folder)")
	settingsFlag(cmd, &i.settings)
	f.StringVar(&i.entry.Name, "name", "roamcard", "what the server is called there")
	f.StringVar(&command, "command", "",
		"how roamcard is started (default: roamcard if that is this program, else its path)")
	f.StringVar(&i.maxUSD, "max", "25.00", "new settings: the most that one payment may come to in US dollars")
	f.StringVar(&i.maxDay, "max-day", "50.00", "new settings: the most that may be signed for in 24 hours in US dollars")
	f.StringVar(&i.mode, "mode", string(roamcard.HumanApproval),
		"new settings: who decides: human_approval or autonomous, within the caps")
	f.StringVar(&i.signer, "signer", "",
		"new settings: what signs, as JSON, as `roamcard wallet new --keystore --json` prints it")
	return cmd
}

// ourselves is how another program starts this one: by its name if that is in PATH, else by its path.
func ourselves() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program (or name it with --command): %w", err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	if found, err := exec.LookPath("roamcard"); err == nil {
		if real, err := filepath.EvalSymlinks(found); err == nil && real == self {
			return "roamcard", nil
		}
	}
	return self, nil
}

func (i *installing) run() error {
	i.entry.Args = []string{"mcp", "serve"}
	if i.settings != "" {
		full, err := filepath.Abs(i.settings) // the program starts the server in a folder of its own
		if err != nil {
			return fmt.Errorf("find the settings' folder: %w", err)
		}
		i.settings = full
		i.entry.Args = append(i.entry.Args, "--config", full)
	}
	if i.print {
		return i.show()
	}
	_, err := i.given() // before anything is written
	if err != nil {
		return err
	}
	if claude := i.claude(); claude != "" {
		err = i.byProgram(claude)
	} else {
		err = i.byFile()
	}
	if err != nil || i.only {
		return err
	}
	return i.begin()
}

// claude is Claude Code's program, which keeps its own settings; none when a file was named.
func (i *installing) claude() string {
	if i.client.Name != "claude" || i.file != "" {
		return ""
	}
	path, err := exec.LookPath("claude")
	if err != nil {
		return ""
	}
	return path
}

// adding is what `claude` is told.
func (i *installing) adding() []string {
	return append([]string{"mcp", "add", i.entry.Name, "--", i.entry.Command}, i.entry.Args...)
}

func (i *installing) show() error {
	w := i.cmd.OutOrStdout()
	if i.claude() != "" {
		_, err := fmt.Fprintln(w, "claude "+words(i.adding()))
		return err
	}
	file, err := i.path()
	if err != nil {
		return err
	}
	fmt.Fprintln(i.cmd.ErrOrStderr(), "For", file)
	_, err = fmt.Fprint(w, i.client.Text(i.entry))
	return err
}

func (i *installing) path() (string, error) {
	if i.file != "" {
		return i.file, nil
	}
	return i.client.File()
}

// claudeVariables say where Claude Code's settings are.
var claudeVariables = []string{"CLAUDE_CONFIG_DIR"}

// byProgram lets Claude Code write its own settings.
func (i *installing) byProgram(claude string) error {
	ctx, cancel := context.WithTimeout(i.cmd.Context(), time.Minute)
	defer cancel()
	w := printable{i.cmd.ErrOrStderr()}
	said, err := custody.Command(ctx, claudeVariables, claude, "mcp", "get", i.entry.Name).CombinedOutput()
	if err == nil {
		if strings.Contains(string(said), "Command: "+i.entry.Command+"\n") &&
			strings.Contains(string(said), "Args: "+strings.Join(i.entry.Args, " ")+"\n") {
			fmt.Fprintf(w, "Claude Code has %s already; nothing changes.\n", i.entry.Name)
			return nil
		}
		return fmt.Errorf("claude code has another server %s; `claude mcp remove %[1]s` makes room, or take another --name",
			i.entry.Name)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("ask claude for its servers: %w", ctx.Err())
	}
	fmt.Fprintf(w, "This runs\n\n    claude %s\n\n", words(i.adding()))
	if err := i.agree("Run it?"); err != nil {
		return err
	}
	out, err := custody.Command(ctx, claudeVariables, claude, i.adding()...).CombinedOutput()
	fmt.Fprintf(w, "%s\n", strings.TrimSpace(string(out)))
	if err != nil {
		return fmt.Errorf("run claude mcp add: %w", err)
	}
	return nil
}

// byFile changes the program's file.
func (i *installing) byFile() error {
	file, err := i.path()
	if err != nil {
		return err
	}
	w := printable{i.cmd.ErrOrStderr()}
	change, err := i.client.Plan(file, i.entry)
	if errors.Is(err, install.ErrManual) {
		fmt.Fprintf(w, "Put this into %s yourself:\n\n%s\n", file, i.client.Text(i.entry))
		return err
	}
	if err != nil {
		return err
	}
	if change.None() {
		fmt.Fprintf(w, "%s has %s already; nothing changes.\n", file, i.entry.Name)
		return nil
	}
	what := "gets this entry and stays as it is otherwise"
	if !change.Existed {
		what = "is made, with this entry"
	}
	fmt.Fprintf(w, "%s, for %s, %s:\n\n%s\n", change.File, i.client.Title, what, i.client.Text(i.entry))
	if err := i.agree("Write it?"); err != nil {
		return err
	}
	backup, err := change.Write(time.Now())
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Written.%s Start %s again to load it.\n", kept(backup), i.client.Title)
	return nil
}

func kept(backup string) string {
	if backup == "" {
		return ""
	}
	return " What was there is in " + backup + "."
}

// errDeclined says that the person said no.
var errDeclined = errors.New("nothing was done")

// agree asks, unless --yes is set.
func (i *installing) agree(question string) error {
	if i.yes {
		return nil
	}
	in, ok := i.cmd.InOrStdin().(*os.File)
	if !ok || !terminal(in) {
		return fmt.Errorf("%w: there is nobody to ask; add --yes, or --print to paste it yourself", errUsage)
	}
	fmt.Fprint(i.cmd.ErrOrStderr(), question, " [y/N] ")
	answer, err := readLine(i.cmd.Context(), in)
	if err != nil {
		return err
	}
	if !isYes(answer) {
		return errDeclined
	}
	return nil
}

// words is a command as a shell reads it.
func words(args []string) string {
	quoted := make([]string, len(args))
	for n, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`&|;<>()*?[]#~!{}") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		quoted[n] = a
	}
	return strings.Join(quoted, " ")
}
