package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/secret/custody"
)

// Problem is a tool's error as a model reads it, both in the text and in the structured content.
type Problem struct {
	Code   string `json:"code" jsonschema:"what went wrong; stable"`
	Detail string `json:"detail"`
	// SafeToPayAgain is never true on the word of the service once something was signed.
	SafeToPayAgain bool   `json:"safeToPayAgain" jsonschema:"whether another key cannot pay a second time for this"`
	NextAction     string `json:"nextAction" jsonschema:"what to do, as in ask_user or get_order"`
	PurchaseKey    string `json:"purchaseKey,omitempty"`
	OrderID        string `json:"orderId,omitempty"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// The codes of this server's own.
const (
	codeApprovalNeeded   = "approval_needed"
	codeApprovalDeclined = "approval_declined"
	codeDenied           = "denied_by_local_policy"
	codeUnknown          = "payment_outcome_unknown"
)

// What a model does next.
const (
	askUser      = "ask_user"
	sameCall     = "call_again_with_same_key"
	getOrder     = "get_order"
	waitAndCall  = "wait_and_call_again"
	fixArguments = "fix_arguments"
	nothing      = "none"
)

// advice is the service's next action in terms of these tools.
var advice = map[string]string{
	"retry_same_request": sameCall, "wait_and_retry": waitAndCall, "poll_order": getOrder, "sign_new_payment": sameCall,
	"fix_request": fixArguments, "sign_in": sameCall, "contact_support": askUser,
}

func problem(code, next, format string, args ...any) *Problem {
	return &Problem{Code: code, Detail: printable(fmt.Sprintf(format, args...), maxDetail), NextAction: next}
}

// advise is a problem with a command to run, which is not shortened.
func advise(code, format string, args ...any) *Problem {
	return &Problem{Code: code, Detail: printable(fmt.Sprintf(format, args...), maxCommand), NextAction: askUser}
}

// problemOf explains an error. paying says that it is of a purchase under a key.
func (s *Server) problemOf(err error, key string, paying bool) *Problem {
	var p *Problem
	if told, ok := errors.AsType[*Problem](err); ok {
		own := *told // others may be told the same
		p = &own
	} else {
		p = s.kindOf(err)
	}
	if paying {
		p.PurchaseKey, p.SafeToPayAgain = key, !s.signed(key)
	}
	return p
}

func (s *Server) kindOf(err error) *Problem {
	if unclear, ok := errors.AsType[*roamcard.AmbiguousPaymentError](err); ok {
		p := problem(codeUnknown, getOrder,
			"The payment was sent, and no clear answer came (%v). The same bytes are sent again "+
				"until one comes. Ask by get_order with the purchaseKey; buying under another key may pay twice.", unclear.Err)
		p.OrderID = identifier(unclear.OrderID)
		return p
	}
	if told, ok := errors.AsType[*roamcard.PaymentError](err); ok {
		return s.stopped(told)
	}
	if told, ok := errors.AsType[*roamcard.APIError](err); ok {
		return refused(told)
	}
	if broken, ok := errors.AsType[*roamcard.JournalError](err); ok {
		return problem("journal_unusable", askUser, "%v", broken)
	}
	if exposed, ok := errors.AsType[*custody.ExposedError](err); ok { // the approvals, which lie with the journal
		return problem("journal_unusable", askUser, "%v", exposed)
	}
	if errors.Is(err, roamcard.ErrSigner) {
		return problem("signer_failed", askUser, "%v", err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return problem("service_unreachable", waitAndCall, "The service did not answer in time.")
	}
	if away, ok := errors.AsType[net.Error](err); ok {
		return problem("service_unreachable", waitAndCall, "The service cannot be reached: %v", away)
	}
	return problem("failed", waitAndCall, "%v", err)
}

// stopped explains why a payment was not made.
func (s *Server) stopped(told *roamcard.PaymentError) *Problem {
	switch {
	case errors.Is(told, roamcard.ErrInsufficientFunds):
		return problem("insufficient_funds", askUser, "%v", told)
	case errors.Is(told, roamcard.ErrTermsMismatch):
		return problem("terms_mismatch", askUser, "%v", told)
	case errors.Is(told, roamcard.ErrKeyConflict):
		return problem("purchase_key_reused", fixArguments, "%v", told)
	case errors.Is(told, roamcard.ErrClock):
		return problem("clock_differs", askUser, "%v", told)
	case errors.Is(told, roamcard.ErrNotDeployed):
		return problem("account_not_deployed", askUser, "%v", told)
	case errors.Is(told, roamcard.ErrApprovalDenied):
		return problem(codeApprovalDeclined, askUser, "%v", told)
	}
	if refusal := s.current().refusal(); refusal != "" {
		return problem(codeDenied, askUser, "%s", refusal)
	}
	return problem(codeDenied, askUser, "%v; only the user can change the settings' file", told)
}

// refused explains an answer of the service. Its texts are quoted as the service's, and its codes are used only if they
// are valid ones: a model reads them.
func refused(told *roamcard.APIError) *Problem {
	next := advice[told.NextAction]
	// A refusal that names no argument is none of the arguments': of what is not found, the id is one.
	if next == "" || next == fixArguments && len(told.Fields) == 0 && told.Status != http.StatusNotFound {
		next = askUser
	}
	code := told.Code
	if !codes.MatchString(code) {
		code = fmt.Sprintf("http_%d", told.Status)
	}
	p := problem(code, next, "The service says: %s", strings.Join(append([]string{told.Detail}, told.Fields...), "; "))
	p.OrderID = identifier(told.OrderID)
	if !told.RetryAt.IsZero() {
		p.Detail += fmt.Sprintf(" The payment may still be taken until %s; until then the same call sends the same payment, "+
			"and afterwards a new one.", told.RetryAt.UTC().Format("15:04:05 UTC"))
	}
	return p
}

var codes = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// signed reports whether anything was or may be signed under a key, or that is unknown: then another key may pay twice.
func (s *Server) signed(key string) bool {
	b, err := s.Store.Read(context.Background()) // a file of this machine
	if err != nil {
		return true
	}
	for _, e := range b.Purchases {
		if e.Key == key && e.Origin == s.origin() && (len(e.Authorizations) > 0 || e.State == roamcard.Reserved) {
			return true
		}
	}
	return false
}

// The bounds of texts of others, in bytes.
const (
	maxDetail = 600
	maxName   = 120
	// maxCommand has room for a purchase key of 200 characters as a word of a shell, in a sentence.
	maxCommand = 2000
)

// quoted is a text in quotes on one line, where what does not show is spelled.
func quoted(text string, most int) string { return strconv.Quote(cut(text, most)) }

// checkKey refuses a purchase key that a person could not read or type: the approval shows it, and takes it as a word
// of a shell.
func checkKey(key string) error {
	if n := utf8.RuneCountInString(key); n < 1 || n > maxKey {
		return problem("arguments_invalid", fixArguments, "purchaseKey has %d characters; it needs 1 to %d", n, maxKey)
	}
	for _, r := range key {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return problem("arguments_invalid", fixArguments,
				"purchaseKey has the character %U, which does not show; use letters, digits, punctuation and plain spaces", r)
		}
	}
	return nil
}

// maxKey is how many characters a purchase key has at most.
const maxKey = 200

// printable removes control characters from a text and bounds it.
func printable(text string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if r == '\n' || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) && r != utf8.RuneError {
			return r
		}
		return -1
	}, text)
	return cut(clean, most)
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

var identifiers = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,80}$`)

// identifier is a text if it is a valid id, else empty.
func identifier(id string) string {
	if identifiers.MatchString(id) {
		return id
	}
	return ""
}

// pageToken is a text if it can name a page, else empty.
func pageToken(token string) string {
	if pageTokens.MatchString(token) {
		return token
	}
	return ""
}

var pageTokens = regexp.MustCompile(`^[A-Za-z0-9_.~=-]{1,200}$`)

// shellWord is a text as one word of a shell.
func shellWord(text string) string {
	if identifiers.MatchString(text) && text[0] != '-' {
		return text
	}
	return "'" + strings.ReplaceAll(printable(text, maxCommand), "'", `'\''`) + "'"
}

// approveCommand is what a person types to approve a purchase.
func (s *Server) approveCommand(key string) string {
	command := "roamcard approve "
	if s.SettingsFile != "" {
		command += "--config " + shellWord(s.SettingsFile) + " "
	}
	if strings.HasPrefix(key, "-") {
		command += "-- " // it is no flag
	}
	return command + shellWord(key)
}
