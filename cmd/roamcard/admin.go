package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// subjectWords say what the commands of operators are about.
var subjectWords = map[string]string{
	"approvals":       "The decisions that wait for a second operator",
	"audit":           "What operators did",
	"cancellations":   "How far the cancellations of eSIMs are",
	"cards":           "Show a card, and close it for good",
	"challenges":      "Sign-in challenges that are past their time",
	"closings":        "How far the closings of cards are",
	"fee-jobs":        "The withdrawals of the issue fee",
	"findings":        "What differs between the books",
	"jobs":            "The work that has stopped and waits for an operator",
	"orders":          "Orders that need an operator, and the full history of one",
	"reconciliations": "The comparisons of the books that have ended",
	"switches":        "Close and open the sale of a product",
	"tokens":          "The tokens of operators",
	"transfers":       "USDC that reached the payee and belongs to no order",
}

func admin() *cobra.Command {
	b := &buyer{}
	cmd := &cobra.Command{
		Use: "admin", GroupID: "operate", Args: noArgs,
		Short: "What operators do; the token is in ROAMCARD_OPERATOR_TOKEN or its _FILE", RunE: help,
	}
	b.flags(cmd)
	subjects := map[string]*cobra.Command{}
	service := roamcardv1.File_roamcard_v1_operator_proto.Services().ByName("OperatorService")
	b.operations(service, subjects)
	subjects["audit"].AddCommand(b.auditExport(service))
	subjects["books"], subjects["activity"] = b.books(), activity()
	for _, name := range slices.Sorted(maps.Keys(subjects)) {
		cmd.AddCommand(subjects[name])
	}
	return cmd
}

// viewFor shows an answer that is no table; nil for the others.
func viewFor(m proto.Message) func(w io.Writer) {
	switch m := m.(type) {
	case *roamcardv1.InspectOrderResponse:
		return func(w io.Writer) { historyText(w, m) }
	case *roamcardv1.ReviewOrderResponse:
		return func(w io.Writer) { reviewText(w, m) }
	case *roamcardv1.GetGaugesResponse:
		return func(w io.Writer) { gaugesText(w, m) }
	case *roamcardv1.GetSummaryResponse:
		return func(w io.Writer) { summaryText(w, m) }
	case *roamcardv1.MintTokenResponse:
		return func(w io.Writer) { mintedText(w, m) }
	}
	return nil
}

func mintedText(w io.Writer, res *roamcardv1.MintTokenResponse) {
	viewOf(w, res.GetToken(), false)
	fmt.Fprintf(w, "token\t%s\n", first(res.GetSecret(), "was shown when it was minted"))
}

func historyText(w io.Writer, history *roamcardv1.InspectOrderResponse) {
	orderText(w, history.GetOrder())
	fmt.Fprintf(w, "owner\t%s\n", history.GetOwner())
	if history.RequestId != nil {
		fmt.Fprintf(w, "created by\trequest %s\n", history.GetRequestId())
	}
	for _, p := range history.GetPayments() {
		fmt.Fprintf(w, "payment\t%s %s %s\n", p.GetStatus(), p.GetTransaction(), p.GetDeadReason())
	}
	if r := history.GetRefund(); r != nil {
		fmt.Fprintf(w, "refund\t%s, %s USDC from %s to %s, until %s %s\n", r.GetStatus(), micros(r.GetAmount()),
			r.GetTreasury(), r.GetTo(), r.GetValidBefore().AsTime().Format("15:04:05"), r.GetTransaction())
	}
	for _, j := range history.GetJobs() {
		fmt.Fprintf(w, "job\t%s %s, attempt %d %s %s\n", j.GetKind(), j.GetStatus(), j.GetAttempt(), j.GetStep(),
			j.GetLastError())
	}
	for _, r := range history.GetReferences() {
		fmt.Fprintf(w, "reference\t%s %d: %s\n", r.GetStep(), r.GetVersion(), r.GetReference())
	}
	for _, m := range history.GetTimeline() {
		fmt.Fprintf(w, "%s\t%s -> %s by %s: %s\n", m.GetAt().AsTime().Format("15:04:05"), m.GetFrom(), m.GetTo(),
			m.GetActor(), m.GetReason())
		if m.RequestId != nil {
			fmt.Fprintf(w, "\t  request %s\n", m.GetRequestId())
		}
		for _, e := range m.GetEvidence() {
			fmt.Fprintf(w, "\t  %s: %s\n", e.GetName(), e.GetValue())
		}
	}
}

func reviewText(w io.Writer, review *roamcardv1.ReviewOrderResponse) {
	for _, p := range review.GetPostings() {
		for _, e := range p.GetEntries() {
			fmt.Fprintf(w, "posted\t%s %s %s\n", p.GetKind(), e.GetAccount(), micros(e.GetUnits()))
		}
	}
	for _, t := range review.GetTransactions() {
		fmt.Fprintf(w, "sent\t%s by %s, nonce %s, %s: %s\n", t.GetSignedAt().AsTime().Format("2006-01-02 15:04:05"),
			t.GetRelayer(), t.GetNonce(), strings.Join(t.GetHashes(), " "), t.GetStatus())
	}
	for _, r := range review.GetAudit() {
		fmt.Fprintf(w, "audit\t%s %s by %s: %s\n", r.GetAt().AsTime().Format("2006-01-02 15:04:05"), r.GetAction(),
			r.GetActor(), r.GetReason())
	}
	fmt.Fprintf(w, "version\t%d\n", review.GetOrder().GetVersion())
	actionsText(w, review.GetAllowedActions())
}

func actionsText(w io.Writer, all []*roamcardv1.AllowedAction) {
	for _, a := range all {
		can := "yes"
		if !a.GetAllowed() {
			can = "no: " + a.GetReason()
		}
		fmt.Fprintf(w, "can %s\t%s\n", a.GetAction(), can)
	}
}

func summaryText(w io.Writer, s *roamcardv1.GetSummaryResponse) {
	for _, o := range s.GetOrders() {
		fmt.Fprintf(w, "orders\t%d %s %s since %s\n", o.GetCount(), o.GetKind(), o.GetStatus(),
			o.GetSince().AsTime().Format("2006-01-02 15:04"))
	}
	for _, j := range s.GetStoppedJobs() {
		fmt.Fprintf(w, "jobs\t%d %s %s\n", j.GetCount(), j.GetKind(), j.GetStatus())
	}
	fmt.Fprintf(w, "findings\t%d open, %d blocking\n", s.GetOpenFindings(), s.GetBlockingFindings())
	fmt.Fprintf(w, "transfers\t%d open\n", s.GetOpenTransfers())
	if s.OrderVersion != nil {
		fmt.Fprintf(w, "order version\t%d\n", s.GetOrderVersion())
	}
}

func gaugesText(w io.Writer, g *roamcardv1.GetGaugesResponse) {
	fmt.Fprintf(w, "as of\t%s\n", g.GetAsOf().AsTime().Format("2006-01-02 15:04:05 MST"))
	for _, f := range g.GetFloats() {
		fmt.Fprintf(w, "float\t%s: %s USD\n", f.GetProvider(), micros(f.GetUnits()))
	}
	for _, a := range g.GetAccounts() {
		if a.Wei != nil {
			fmt.Fprintf(w, "%s\t%s: %s wei\n", a.GetName(), a.GetAddress(), a.GetWei())
		}
		if a.Units != nil {
			fmt.Fprintf(w, "%s\t%s: %s USDC\n", a.GetName(), a.GetAddress(), micros(a.GetUnits()))
		}
	}
	for _, j := range g.GetJobs() {
		fmt.Fprintf(w, "jobs\t%d %s %s since %s\n", j.GetCount(), j.GetKind(), j.GetStatus(),
			j.GetOldest().AsTime().Format("2006-01-02 15:04"))
	}
	for _, n := range g.GetNodes() {
		fmt.Fprintf(w, "node\t%s: block %d, %d s old\n", n.GetNode(), n.GetBlock(), n.GetAgeSeconds())
	}
}
