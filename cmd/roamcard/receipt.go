package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/receipt"
)

func receipts() *cobra.Command {
	b := &buyer{}
	cmd := &cobra.Command{
		Use: "receipt", GroupID: "buy", Args: noArgs, Short: "List and verify signed receipts", RunE: help,
	}
	b.flags(cmd)
	b.paying(cmd)
	cmd.AddCommand(b.receiptList(), b.receiptVerify())
	return cmd
}

func (b *buyer) receiptList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Args: noArgs, Short: "List the receipts of the wallet's orders, the newest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			all, err := roamcard.Collect(client.Orders.Receipts(cmd.Context()))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListReceiptsResponse{Receipts: all}, func(w io.Writer) {
				fmt.Fprintln(w, "ORDER\tOUTCOME\tISSUED\tRECEIPT")
				for _, r := range all {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.GetOrderId(), r.GetOutcome(),
						r.GetIssuedAt().AsTime().Format(time.RFC3339), r.GetSignature())
				}
			})
		}),
	}
}

func (b *buyer) receiptVerify() *cobra.Command {
	var did, origin string
	cmd := &cobra.Command{
		Use: "verify RECEIPT", Args: oneArg, Short: "Verify a receipt, which is a file or the receipt itself",
		Long: "Verifies a receipt with the keys of the service: offline with the document that it publishes at " +
			receipt.DocumentPath + ", or with the one that it publishes now.\n" +
			"A file has the receipt as it is, or the JSON in which the service answers it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (did == "") == (origin == "") {
				return fmt.Errorf("%w: say whose keys verify it, by --did or by --origin", errUsage)
			}
			jws, err := receiptIn(args[0])
			if err != nil {
				return err
			}
			var document []byte
			if did != "" {
				document, err = readBounded(did)
			} else {
				document, err = keysOf(cmd, origin)
			}
			if err != nil {
				return err
			}
			proof, err := receipt.Verify(jws, document)
			if err != nil {
				return fmt.Errorf("not valid: %w", err)
			}
			return b.showProof(cmd.OutOrStdout(), proof)
		},
	}
	f := cmd.Flags()
	f.StringVar(&did, "did", "", "`file` with the service's DID document")
	f.StringVar(&origin, "origin", "", "origin of the service, whose DID document is fetched")
	return cmd
}

// receiptIn is the receipt in an argument, or in the file that it names.
func receiptIn(arg string) (string, error) {
	text := strings.TrimSpace(arg)
	if strings.Count(text, ".") != 2 || strings.ContainsAny(text, `/\`) || len(text) < 100 {
		read, err := readBounded(arg)
		if err != nil {
			return "", err
		}
		text = strings.TrimSpace(string(read))
	}
	if !strings.HasPrefix(text, "{") {
		return text, nil
	}
	return receiptOf([]byte(text))
}

// receiptOf is the one receipt in an answer of the service: an order, a receipt of the list, or a list of one.
func receiptOf(text []byte) (string, error) {
	var answer struct {
		Format    string            `json:"format"`
		Signature string            `json:"signature"`
		Receipt   string            `json:"receipt"`
		Receipts  []json.RawMessage `json:"receipts"`
	}
	err := json.Unmarshal(text, &answer)
	switch {
	case err == nil && answer.Format == "jws":
		return answer.Signature, nil
	case err == nil && answer.Receipt != "":
		return answer.Receipt, nil
	case err == nil && len(answer.Receipts) == 1:
		return receiptOf(answer.Receipts[0])
	case err == nil && len(answer.Receipts) > 1:
		return "", fmt.Errorf("the file has %d receipts: give one of them", len(answer.Receipts))
	}
	return "", errors.New("the file has no receipt in the format jws")
}

// maxReceiptFile is more than any receipt or DID document needs.
const maxReceiptFile = 64 << 10

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return bounded(f)
}

func bounded(from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxReceiptFile+1))
	if err == nil && len(text) > maxReceiptFile {
		err = fmt.Errorf("it has more than %d bytes", maxReceiptFile)
	}
	return text, err
}

// keysOf is the DID document that an origin publishes. It has to be the origin's own.
func keysOf(cmd *cobra.Command, origin string) ([]byte, error) {
	did, err := receipt.DID(origin)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet,
		strings.TrimSuffix(origin, "/")+receipt.DocumentPath, nil)
	if err != nil {
		return nil, err
	}
	res, err := outward.New(outward.Config{Most: maxReceiptFile}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read the keys: %s answers %s", origin, res.Status)
	}
	text, err := bounded(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	var document struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(text, &document); err != nil || document.ID != did {
		return nil, fmt.Errorf("%s publishes no keys of %s", origin, did)
	}
	return text, nil
}

// showProof prints what a receipt proves.
func (b *buyer) showProof(out io.Writer, p receipt.Proof) error {
	if b.asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(p)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(w, "%s\t%s\n", name, line(value)) }
	row("valid", "signed by "+p.Signer)
	row("key", p.KeyID)
	row("order", p.OrderID)
	row("product", p.Product)
	row("outcome", string(p.Outcome))
	row("for", p.ResourceURL)
	row("payer", p.Payer)
	row("amount", p.Amount+" of "+p.Asset+" on "+p.Network)
	row("transaction", p.Transaction)
	if p.RefundTransaction != "" {
		row("refunded by", p.RefundTransaction)
	}
	row("issued", time.Unix(p.IssuedAt, 0).UTC().Format(time.RFC3339))
	return w.Flush()
}
