package activity

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
)

// Submission is an event as a client sent it, untrusted.
type Submission struct {
	EventID, EventName, VisitorID, Path string
	Properties                          map[string]any
}

// Names are the known events.
func Names() []string {
	return []string{
		"page_view", "quote_shown", "plan_selected", "challenge_received", "payment_submitted", "order_fulfilled",
		"reveal_opened", "error_shown",
	}
}

// properties are the allowlisted ones with their types. There is no free text: a type accepts values that
// can be listed or are too short to hide anything in.
var properties = map[string]func(string) bool{
	"product":     among("card", "card_issue", "card_topup", "esim", "esim_topup"),
	"planType":    among("country", "region"),
	"countryCode": regexp.MustCompile(`^[A-Z]{2}$`).MatchString,
	"step":        regexp.MustCompile(`^[a-z]{2,12}(_[a-z]{2,12}){0,2}$`).MatchString,
	"errorCode":   isErrorCode,
	"clientVersion": regexp.MustCompile(
		`^((web|ts|python|go|cli|mcp)/)?v?\d{1,3}\.\d{1,3}\.\d{1,3}(-(alpha|beta|rc|dev)(\.\d{1,2})?)?$`).MatchString,
}

func among(values ...string) func(string) bool {
	return func(s string) bool { return slices.Contains(values, s) }
}

var httpStatus = regexp.MustCompile(`^http_[45]\d\d$`)

// isErrorCode accepts the code of a problem, or http_ and a status.
func isErrorCode(text string) bool {
	_, known := fault.Lookup(fault.Code(text))
	return known || httpStatus.MatchString(text)
}

// PropertyNames are the allowlisted properties, sorted.
func PropertyNames() []string { return slices.Sorted(maps.Keys(properties)) }

// maxPath is the longest path, before its ids are replaced.
const maxPath = 200

// Check makes an event of a submission, or says which member is wrong: never what it held, and not the
// name of a property that is not ours.
func Check(s Submission) (Event, error) {
	var wrong []fault.Field
	refuse := func(path, message string) {
		wrong = append(wrong, fault.Field{Path: path, Rule: "event", Message: message})
	}
	id, ok := clientID(s.EventID)
	if !ok {
		refuse("eventId", "must be a random or time-ordered uuid (version 4 or 7)")
	}
	visitor, ok := clientID(s.VisitorID)
	if !ok {
		refuse("visitorId", "must be a random or time-ordered uuid (version 4 or 7)")
	}
	if !slices.Contains(Names(), s.EventName) {
		refuse("eventName", "must be one of "+strings.Join(Names(), ", "))
	}
	path, ok := cleanPath(s.Path)
	if !ok {
		refuse("path", "must be the path of a page: plain words and ids of ours, no query")
	}
	e := Event{
		ID: eventOf(id), Visitor: visitorOf(visitor), Name: s.EventName, Path: path, Properties: map[string]string{},
	}
	for name, value := range s.Properties {
		typed, listed := properties[name]
		text, isText := value.(string)
		switch {
		case !listed:
			refuse("properties", "may hold "+strings.Join(PropertyNames(), ", ")+" only")
		case !isText || !typed(text) || Forbidden(text):
			refuse("properties."+name, "is not a value of this property")
		default:
			e.Properties[name] = text
		}
	}
	if len(wrong) > 0 {
		return Event{}, fault.New(fault.EventRejected, "The event was not stored, see fields.").With(wrong...)
	}
	return e, nil
}

// clientID reads an id that a client chose. It is not searched for card numbers: one random id in a thousand begins
// with the digits of one. A card number written as an id is not kept, because only a digest of an id is.
func clientID(s string) (uuid.UUID, bool) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 || (id.Version() != 4 && id.Version() != 7) || id.Variant() != uuid.RFC4122 {
		return uuid.Nil, false
	}
	return id, true
}

var (
	// word has few digits, at the ends of its parts only: enough for "v2", too few for an identifier.
	word = regexp.MustCompile(`^[A-Za-z]{1,24}\d{0,2}([._-][A-Za-z]{1,16}\d{0,2}){0,3}$`)
	// slot is a route's placeholder.
	slot     = regexp.MustCompile(`^(\{[A-Za-z]{1,20}\}|:[A-Za-z]{1,20})$`)
	orderRef = regexp.MustCompile(`^ord_[0-9a-f]{24,60}$`)
)

// cleanPath takes the ids out of a path. It is false for anything that is not the path of a page.
func cleanPath(path string) (string, bool) {
	if path == "" || path == "/" {
		return path, true
	}
	rest, rooted := strings.CutPrefix(path, "/")
	if !rooted || len(path) > maxPath {
		return "", false
	}
	parts := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	if len(parts) > 8 {
		return "", false
	}
	for i, part := range parts {
		_, isID := clientID(part)
		switch {
		case isID || orderRef.MatchString(part):
			parts[i] = "{id}"
		case slot.MatchString(part):
		case word.MatchString(part) && !Forbidden(part):
		default:
			return "", false
		}
	}
	clean := "/" + strings.Join(parts, "/")
	// The whole is checked once more: a value may be spread over several parts.
	return clean, !Forbidden(clean)
}
