package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/secret/custody"
)

func wallet() *cobra.Command {
	b := &buyer{}
	cmd := &cobra.Command{
		Use: "wallet", GroupID: "buy", Args: noArgs, Short: "Make a wallet for development, and look at the one in use",
		RunE: help,
		Long: "The wallet in use is, in this order: the program in ROAMCARD_SIGNER with ROAMCARD_SIGNER_ADDRESS, the " +
			"keystore in\n" +
			"ROAMCARD_KEYSTORE with the passphrase in ROAMCARD_KEYSTORE_PASSPHRASE_FILE, the keychain's entry " +
			"ROAMCARD_KEYCHAIN,\n" +
			"the key in ROAMCARD_WALLET_KEY or the file ROAMCARD_WALLET_KEY_FILE, one of the ready file's, the one that " +
			"`wallet new` made.\n" +
			"A program gets of the environment what programs need, and the variables that ROAMCARD_SIGNER_ENV names.\n" +
			"With --account, it is the owner of a smart account, which pays in its place.",
	}
	b.flags(cmd)
	cmd.PersistentFlags().IntVar(&b.wallet, "wallet", 0, "which of the ready file's wallets, counted from 0")
	cmd.AddCommand(b.walletNew(), b.walletImport(), b.walletAddress(), b.walletBalance())
	return cmd
}

func (b *buyer) walletNew() *cobra.Command {
	var k keeping
	cmd := &cobra.Command{
		Use: "new", Args: noArgs,
		Short: "Make a key: in an encrypted keystore, in the OS keychain, or for development in a plain file",
		Long: "Makes a key. Without a flag it goes into a plain file that only you can read, for development and sandbox " +
			"use.\n" + keepingLong,
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw := make([]byte, 32)
			_, _ = rand.Read(raw) // never fails: the program ends when there is no randomness
			key := roamcard.NewSecret(hex.EncodeToString(raw))
			if k.chosen() {
				return b.keep(cmd, k, key)
			}
			return b.keepPlain(cmd, key)
		},
	}
	k.flags(cmd)
	return cmd
}

// keepPlain writes a key as it is.
func (b *buyer) keepPlain(cmd *cobra.Command, key roamcard.Secret) error {
	path, err := walletFile()
	if err != nil {
		return err
	}
	signer, err := roamcard.NewKeySigner(key.Reveal())
	if err != nil {
		return err
	}
	err = custody.Create(path, []byte(key.Reveal()+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("there is a wallet in %s already; move it away first", path)
	}
	if err != nil {
		return fmt.Errorf("write the wallet: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The key is in %s. Keep no real money behind it.\n", path)
	return b.showAddress(cmd, signer)
}

func (b *buyer) walletAddress() *cobra.Command {
	cmd := &cobra.Command{
		Use: "address", Args: noArgs, Short: "Print the address of the wallet in use",
		RunE: func(cmd *cobra.Command, _ []string) error {
			signer, err := b.mustSign(cmd)
			if err != nil {
				return err
			}
			return b.showAddress(cmd, signer)
		},
	}
	b.ofAccount(cmd)
	return cmd
}

func (b *buyer) walletBalance() *cobra.Command {
	cmd := &cobra.Command{
		Use: "balance", Args: noArgs, Short: "Read the wallet's USDC from the chain",
		RunE: func(cmd *cobra.Command, _ []string) error {
			signer, err := b.mustSign(cmd)
			if err != nil {
				return err
			}
			r, err := b.ready()
			if err != nil {
				return err
			}
			rpc := b.node(r)
			if rpc == "" {
				return fmt.Errorf("%w: name a node of the chain with --rpc-url", errUsage)
			}
			usdc, err := roamcard.USDCBalance(cmd.Context(), rpc, signer.Address())
			if err != nil {
				return err
			}
			if b.asJSON {
				return b.showJSON(cmd, map[string]string{"address": signer.Address(), "usdc": usdc.Dollars()})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), usdc.Dollars(), "USDC")
			return err
		},
	}
	cmd.Flags().StringVar(&b.rpcURL, "rpc-url", "", "JSON-RPC endpoint of Base (ROAMCARD_RPC_URL)")
	b.ofAccount(cmd)
	return cmd
}

// errNoWallet says that there is no signer.
var errNoWallet = errors.New("there is no wallet: set ROAMCARD_SIGNER, ROAMCARD_KEYSTORE, ROAMCARD_WALLET_KEY or " +
	"--ready-file, or run `roamcard wallet new`")

func (b *buyer) mustSign(cmd *cobra.Command) (roamcard.Signer, error) {
	r, err := b.ready()
	if err != nil {
		return nil, err
	}
	signer, err := b.signer(cmd, r)
	if err == nil && signer == nil {
		err = errNoWallet
	}
	return signer, err
}

func (b *buyer) showAddress(cmd *cobra.Command, s roamcard.Signer) error {
	if b.asJSON {
		return b.showJSON(cmd, map[string]string{"address": s.Address()})
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), s.Address())
	return err
}
