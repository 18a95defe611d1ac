package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/roamcard/roamcard/clients/agent/keys"
	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// keeping is where a key goes that is made or imported.
type keeping struct {
	keystore, keychain bool
	file, entry        string
	passphraseFile     string
	passphraseCommand  string
}

const keepingLong = "--keystore encrypts it, as geth does; the passphrase comes from --passphrase-file (mode 0600), " +
	"from\n" +
	"--passphrase-command, or is asked for at the terminal. --keychain gives it to the keychain of the operating " +
	"system; where\n" +
	"there is none, as on Linux without a desktop, an encrypted keystore takes its place, and the command says so.\n" +
	"What it prints as `signer` goes into the settings of `roamcard mcp serve`."

func (k *keeping) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&k.keystore, "keystore", false, "keep the key in an encrypted keystore")
	f.BoolVar(&k.keychain, "keychain", false, "keep the key in the OS keychain")
	f.StringVar(&k.file, "keystore-file", "",
		"the keystore's file (ROAMCARD_KEYSTORE; default: keystore.json next to the wallet)")
	f.StringVar(&k.entry, "keychain-entry", "wallet", "what the entry in the keychain is called")
	f.StringVar(&k.passphraseFile, "passphrase-file", "",
		"file whose first line is the passphrase (ROAMCARD_KEYSTORE_PASSPHRASE_FILE)")
	f.StringVar(&k.passphraseCommand, "passphrase-command", "",
		"program that prints the passphrase, as in \"pass show roamcard\"; not run by a shell")
}

func (k *keeping) chosen() bool { return k.keystore || k.keychain }

func (b *buyer) walletImport() *cobra.Command {
	var k keeping
	var from string
	cmd := &cobra.Command{
		Use: "import", Args: noArgs, Short: "Keep a key that you have in an encrypted keystore or in the OS keychain",
		Long: "Reads a private key, 32 bytes in hex, from --from or standard input; at a terminal it does not show. The " +
			"file stays.\n" + keepingLong,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !k.chosen() {
				return fmt.Errorf("%w: name --keystore or --keychain", errUsage)
			}
			key, err := readKey(cmd, from)
			if err != nil {
				return err
			}
			return b.keep(cmd, k, key)
		},
	}
	k.flags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "file that holds the key, such as the one that `wallet new` made")
	return cmd
}

// readKey reads a key without showing it.
func readKey(cmd *cobra.Command, from string) (roamcard.Secret, error) {
	none := roamcard.NewSecret("")
	if in, ok := cmd.InOrStdin().(*os.File); from == "" && ok && terminal(in) {
		return askSecret(cmd.Context(), in, cmd.ErrOrStderr(), "Private key (it does not show): ")
	}
	in := cmd.InOrStdin()
	if from != "" {
		f, err := os.Open(from)
		if err != nil {
			return none, fmt.Errorf("read the key: %w", err)
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	const longest = 1 << 10
	text, err := io.ReadAll(io.LimitReader(in, longest))
	if err != nil {
		return none, fmt.Errorf("read the key: %w", err)
	}
	return roamcard.NewSecret(strings.TrimSpace(string(text))), nil
}

// keep stores a key in the place that was asked for. Without a keychain it makes a keystore, and says so.
func (b *buyer) keep(cmd *cobra.Command, k keeping, key roamcard.Secret) error {
	if k.keystore && k.keychain {
		return fmt.Errorf("%w: name one of --keystore and --keychain", errUsage)
	}
	c, err := k.config(cmd)
	if err != nil {
		return err
	}
	signer, err := keys.Put(cmd.Context(), c, key)
	if k.keychain && errors.Is(err, keys.ErrNoKeychain) {
		k.keystore, k.keychain = true, false
		fmt.Fprintf(printable{cmd.ErrOrStderr()}, "%v\nFallback: an encrypted keystore instead of the keychain.\n", err)
		if c, err = k.config(cmd); err != nil {
			return err
		}
		signer, err = keys.Put(cmd.Context(), c, key)
	}
	if err != nil {
		return err
	}
	c.Address = signer.Address()
	if b.asJSON {
		return b.showJSON(cmd, map[string]any{"address": signer.Address(), "signer": c})
	}
	where := "the keychain, as " + c.Keychain
	if c.Keystore != nil {
		where = c.Keystore.File + ", encrypted"
	}
	fmt.Fprintf(cmd.ErrOrStderr(),
		"The key is in %s. Without its passphrase or with the place lost, its money is lost: keep a copy.\n", where)
	setting, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the signer: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "For the settings of `roamcard mcp serve`: \"signer\": %s\n", setting)
	return b.showAddress(cmd, signer)
}

// config is the place as the settings of an agent name it.
func (k *keeping) config(cmd *cobra.Command) (keys.Config, error) {
	if k.keychain {
		return keys.Config{Keychain: k.entry}, nil
	}
	file := k.file
	if file == "" {
		var err error
		if file, err = keystoreFile(); err != nil {
			return keys.Config{}, err
		}
	}
	store := &keys.Keystore{File: file, PassphraseCommand: strings.Fields(k.passphraseCommand)}
	if k.passphraseCommand == "" {
		store.PassphraseFile = first(k.passphraseFile, os.Getenv("ROAMCARD_KEYSTORE_PASSPHRASE_FILE"))
	}
	for _, path := range []*string{&store.File, &store.PassphraseFile} {
		if *path == "" || strings.HasPrefix(*path, "~/") {
			continue
		}
		full, err := filepath.Abs(*path)
		if err != nil {
			return keys.Config{}, fmt.Errorf("find the keystore's folder: %w", err)
		}
		*path = full
	}
	c := keys.Config{Keystore: store}
	if k.passphraseCommand != "" {
		c.Environment = namedVariables()
	}
	if ask := asker(cmd); ask != nil {
		c.Ask = func(ctx context.Context, prompt string) (roamcard.Secret, error) {
			pass, err := ask(ctx, "New passphrase: ")
			if err != nil {
				return pass, err
			}
			again, err := ask(ctx, "The same again: ")
			if err == nil && again.Reveal() != pass.Reveal() {
				err = errors.New("the two passphrases differ; nothing was kept")
			}
			return pass, err
		}
	}
	return c, nil
}

// keptKey is the keystore or the keychain's entry that the environment names.
func keptKey(cmd *cobra.Command) (keys.Config, bool) {
	if file := os.Getenv("ROAMCARD_KEYSTORE"); file != "" {
		return keys.Config{
			Keystore: &keys.Keystore{File: file, PassphraseFile: os.Getenv("ROAMCARD_KEYSTORE_PASSPHRASE_FILE")},
			Ask:      asker(cmd),
		}, true
	}
	entry := os.Getenv("ROAMCARD_KEYCHAIN")
	return keys.Config{Keychain: entry}, entry != ""
}

// asker asks for a passphrase at the terminal; nil where there is none.
func asker(cmd *cobra.Command) func(context.Context, string) (roamcard.Secret, error) {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !terminal(in) {
		return nil
	}
	return func(ctx context.Context, prompt string) (roamcard.Secret, error) {
		return askSecret(ctx, in, cmd.ErrOrStderr(), prompt)
	}
}

// askSecret reads a line without echo. The terminal's state is restored when the context ends.
func askSecret(ctx context.Context, in *os.File, w io.Writer, prompt string) (roamcard.Secret, error) {
	none, fd := roamcard.NewSecret(""), int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return none, fmt.Errorf("ask at the terminal: %w", err)
	}
	type answered struct {
		line []byte
		err  error
	}
	read := make(chan answered, 1)
	fmt.Fprint(w, prompt)
	defer fmt.Fprintln(w)
	go func() { // ends with the line, or with the program
		line, err := term.ReadPassword(fd)
		read <- answered{line, err}
	}()
	select {
	case a := <-read:
		if err := errors.Join(a.err, ctx.Err()); err != nil {
			return none, fmt.Errorf("ask at the terminal: %w", err)
		}
		return roamcard.NewSecret(string(a.line)), nil
	case <-ctx.Done():
		_ = term.Restore(fd, before) // there is nothing else to do for it
		return none, ctx.Err()
	}
}
