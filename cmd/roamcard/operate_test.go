package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
)

var operatorService = roamcardv1.File_roamcard_v1_operator_proto.Services().ByName("OperatorService")

// TestEveryMethodOfOperatorsIsACommand, and what the protos say of it names fields and methods that there are.
func TestEveryMethodOfOperatorsIsACommand(t *testing.T) {
	byHand := []protoreflect.Name{"Reconcile", "GetReconciliation"} // their exit code says whether the books agree
	for i := range operatorService.Methods().Len() {
		method := operatorService.Methods().Get(i)
		commands := optionOf[[]*roamcardv1.Command](method, roamcardv1.E_Command)
		if (len(commands) == 0) != slices.Contains(byHand, method.Name()) {
			t.Errorf("%s is %d commands", method.Name(), len(commands))
		}
		for _, c := range commands {
			subject, _, below := strings.Cut(c.GetName(), " ")
			if below && subjectWords[subject] == "" {
				t.Errorf("%q: nothing says what %s are", c.GetName(), subject)
			}
			for _, a := range append(c.GetArguments(), c.GetSets()...) {
				name, _, _ := strings.Cut(a, "=")
				for _, part := range strings.Split(name, "/") {
					if method.Input().Fields().ByName(protoreflect.Name(part)) == nil {
						t.Errorf("%q: the request has no %s", c.GetName(), part)
					}
				}
			}
			reads := isRead(method)
			if p := c.GetPreview(); p != "" && (operatorService.Methods().ByName(protoreflect.Name(p)) == nil || reads) {
				t.Errorf("%q is previewed by %s", c.GetName(), p)
			}
			if reads && c.GetIrreversible() != "" {
				t.Errorf("%q changes nothing", c.GetName())
			}
		}
	}
	messages := roamcardv1.File_roamcard_v1_operator_proto.Messages()
	for i := range messages.Len() {
		m := messages.Get(i)
		for _, column := range optionOf[*roamcardv1.Table](m, roamcardv1.E_Table).GetColumns() {
			for _, path := range strings.Split(column, "/") {
				of := m
				for _, name := range strings.Split(path, ".") {
					f := of.Fields().ByName(protoreflect.Name(name))
					if f == nil {
						t.Fatalf("%s has no %s", of.Name(), name)
					}
					of = f.Message()
				}
			}
		}
	}
}

// actions answer operators, and count what they change.
type actions struct {
	roamcardv1connect.UnimplementedOperatorServiceHandler
	decided, listed atomic.Int32
	status          string
	outdated        bool
	down            error
	enough          func()
}

// DecideOrder implements roamcardv1connect.OperatorServiceHandler.
func (a *actions) DecideOrder(
	_ context.Context, req *roamcardv1.DecideOrderRequest,
) (*roamcardv1.DecideOrderResponse, error) {
	a.decided.Add(1)
	if a.down != nil {
		return nil, a.down
	}
	return &roamcardv1.DecideOrderResponse{Order: &roamcardv1.ReviewItem{
		OrderId: req.GetOrderId(), Status: req.GetAction(), Reason: req.GetReason(),
		PendingApproval: &roamcardv1.Approval{Id: "an-approval", Status: a.status, Outdated: a.outdated},
	}}, nil
}

// InspectOrder implements roamcardv1connect.OperatorServiceHandler.
func (a *actions) InspectOrder(
	_ context.Context, req *roamcardv1.InspectOrderRequest,
) (*roamcardv1.InspectOrderResponse, error) {
	return &roamcardv1.InspectOrderResponse{
		Order: &roamcardv1.Order{OrderId: req.GetOrderId()}, Owner: "0xthe-owner\x1b[2J",
	}, nil
}

// ListOrderQueue implements roamcardv1connect.OperatorServiceHandler. There are 250 orders.
func (a *actions) ListOrderQueue(
	_ context.Context, req *roamcardv1.ListOrderQueueRequest,
) (*roamcardv1.ListOrderQueueResponse, error) {
	const all = 250
	if a.listed.Add(1) == 9 {
		a.enough()
	}
	res, from := &roamcardv1.ListOrderQueueResponse{}, len(req.GetPageToken())
	for i := from; i < min(all, from+int(req.GetPageSize())); i++ {
		res.Orders = append(res.Orders, &roamcardv1.ReviewItem{OrderId: "=ord", AmountUsdCents: 2500})
	}
	if to := from + len(res.GetOrders()); to < all {
		res.NextPageToken = proto.String(strings.Repeat("x", to))
	}
	return res, nil
}

func serving(t *testing.T, a *actions) {
	t.Helper()
	home(t)
	mux, server := http.NewServeMux(), connect.NewServer()
	roamcardv1connect.RegisterOperatorServiceHandler(server, a)
	connecthttp.Mount(mux, server)
	service := httptest.NewServer(mux)
	t.Cleanup(service.Close)
	t.Setenv("ROAMCARD_URL", service.URL)
}

// TestActionSaysThatItWaits: what needs a second operator has not taken effect, and no action may leave that out.
func TestActionSaysThatItWaits(t *testing.T) {
	for status, waits := range map[string]bool{"pending": true, "approved": false} {
		serving(t, &actions{status: status})
		out, _, code := runWith(t, "admin", "orders", "retry", "an-order", "--reason", "r")
		if code != exitOK || !strings.Contains(out, "an-order") ||
			strings.Contains(out, "admin approvals approve an-approval") != waits {
			t.Errorf("%s: %d, %q", status, code, out)
		}
	}
}

// TestActionThatOvertookAnotherHasTakenEffect: what waits is not its own, and is named as outdated.
func TestActionThatOvertookAnotherHasTakenEffect(t *testing.T) {
	serving(t, &actions{status: "pending", outdated: true})
	out, _, code := runWith(t, "admin", "orders", "retry", "an-order", "--reason", "r")
	if code != exitOK || strings.Contains(out, "waits for a second operator") ||
		!strings.Contains(out, "approvals reject an-approval") {
		t.Errorf("%d, %q", code, out)
	}
}

// TestActionWithoutAnAnswerTellsItsKey, with which it can be repeated; one that was refused needs none.
func TestActionWithoutAnAnswerTellsItsKey(t *testing.T) {
	for code, told := range map[connect.Code]bool{connect.CodeUnavailable: true, connect.CodeNotFound: false} {
		serving(t, &actions{down: connect.NewError(code, "no")})
		_, stderr, exit := runWith(t, "admin", "orders", "retry", "an-order", "--reason", "r")
		named := regexp.MustCompile(`repeated with --key \S{16,}`).MatchString(stderr)
		if exit == exitOK || named != told {
			t.Errorf("%s: %d, %q", code, exit, stderr)
		}
	}
}

// TestWrongUsageDoesNothing: what is refused as wrong usage was never sent.
func TestWrongUsageDoesNothing(t *testing.T) {
	a := &actions{enough: func() {}}
	serving(t, a)
	act := []string{"admin", "orders", "retry", "an-order", "--reason", "r"}
	for name, args := range map[string][]string{
		"a key that no header takes": append(act, "--key", "k\x1b[31m"),
		"a reason that is no text":   append(act[:4:4], "--reason", "\xff"),
		"an output that is none":     append(act, "--output", "xml"),
		"two outputs":                {"admin", "orders", "list", "--json", "--output", "csv"},
		"a token as a table": {
			"admin", "tokens", "mint", "--name", "n", "--role", "viewer", "--expires", "1h", "--reason", "r", "--output", "csv",
		},
		"a watch without a pause": {"admin", "orders", "list", "--watch", "0s"},
		"a short watch":           {"admin", "orders", "list", "--watch", "999ms"},
	} {
		if _, stderr, code := runWith(t, args...); code != exitUsage || a.decided.Load()+a.listed.Load() != 0 {
			t.Errorf("%s: %d, %s", name, code, stderr)
		}
	}
}

func TestRefusalCallsMembersAsTheCommandLineDoes(t *testing.T) {
	mint := operatorService.Methods().ByName("MintToken")
	cmd := &cobra.Command{}
	cmd.Flags().String("expires", "", "")
	refused := &roamcard.APIError{Fields: []string{"expiresInSeconds: must be 60 or more", "name: is long", "other: no"}}
	err := (&operation{method: mint}).asFlags(cmd, fmt.Errorf("mint: %w", refused))
	want := []string{"--expires: must be 60 or more seconds", "name: is long", "other: no"}
	if got := roamcard.ReportOf(err).Fields; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestActionThatCannotBeShownWasDone, and who is told of the failure is told that, too.
func TestActionThatCannotBeShownWasDone(t *testing.T) {
	serving(t, &actions{})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no full disk here")
	}
	defer func() { _ = full.Close() }()
	cmd := root()
	cmd.SetOut(full)
	cmd.SetArgs([]string{"admin", "orders", "retry", "an-order", "--reason", "r"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "it was done") {
		t.Errorf("%v", err)
	}
}

func TestListsArePagedLimitedAndWrittenAsAsked(t *testing.T) {
	serving(t, &actions{enough: func() {}})
	const all = 250
	for args, want := range map[string]int{
		"": 100, "--limit 1": 1, "--limit 170": 170, "--limit 0": all, "--limit 300": all,
	} {
		out, stderr, code := runWith(t, append([]string{"admin", "orders", "list"}, strings.Fields(args)...)...)
		if got := strings.Count(out, "=ord"); code != exitOK || got != want ||
			strings.Contains(stderr, "more") != (want < all) {
			t.Errorf("%q: %d, %d orders, %q", args, code, got, stderr)
		}
	}
	out, _, code := runWith(t, "admin", "orders", "list", "--limit", "2", "--output", "csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if code != exitOK || err != nil || len(rows) != 3 || rows[0][3] != "USD" || rows[1][0] != "'=ord" ||
		rows[2][3] != "25.00" {
		t.Errorf("%d, %q, %v", code, rows, err)
	}
	if out, _, code = runWith(t, "admin", "orders", "list", "--limit", "2", "--output", "json"); code != exitOK ||
		strings.Count(out, `"orderId"`) != 2 || strings.Contains(out, "nextPageToken") {
		t.Errorf("%d, %s", code, out)
	}
	if _, stderr, code := runWith(t, "admin", "orders", "show", "ord", "--output", "csv"); code != exitUsage ||
		!strings.Contains(stderr, "--output is table or json") {
		t.Errorf("%d, %s", code, stderr)
	}
}

// ListSwitches implements roamcardv1connect.OperatorServiceHandler. One is paused from the third time on; the fifth is
// the last.
func (a *actions) ListSwitches(
	context.Context, *roamcardv1.ListSwitchesRequest,
) (*roamcardv1.ListSwitchesResponse, error) {
	n := a.listed.Add(1)
	if n == 5 {
		a.enough()
	}
	return &roamcardv1.ListSwitchesResponse{Switches: []*roamcardv1.Switch{{Product: "esim", Paused: n > 2}}}, nil
}

// often lets lists be watched without waiting.
func often(t *testing.T) {
	t.Helper()
	least := leastWatch
	leastWatch = time.Millisecond
	t.Cleanup(func() { leastWatch = least })
}

// TestWatchedListIsShownWhenItHasChanged, until somebody interrupts it.
func TestWatchedListIsShownWhenItHasChanged(t *testing.T) {
	often(t)
	ctx, enough := context.WithCancel(t.Context())
	a := &actions{enough: enough}
	serving(t, a)
	cmd := root()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"admin", "switches", "list", "--watch", "1ms"})
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Errorf("interrupted: %v", err)
	}
	if got := out.String(); strings.Count(got, "PRODUCT") != 2 || strings.Count(got, "yes") != 1 {
		t.Errorf("shown %q", got)
	}
}

// TestWatchedListIsReadFromItsFirstPageAgain: nothing changes, so it is shown once.
func TestWatchedListIsReadFromItsFirstPageAgain(t *testing.T) {
	often(t)
	ctx, enough := context.WithCancel(t.Context())
	serving(t, &actions{enough: enough})
	cmd := root()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"admin", "orders", "list", "--limit", "250", "--watch", "1ms"})
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Errorf("interrupted: %v", err)
	}
	if got := strings.Count(out.String(), "=ord"); got != 250 {
		t.Errorf("%d orders are shown", got)
	}
}

// ListTokens implements roamcardv1connect.OperatorServiceHandler.
func (a *actions) ListTokens(
	context.Context, *roamcardv1.ListTokensRequest,
) (*roamcardv1.ListTokensResponse, error) {
	return &roamcardv1.ListTokensResponse{Tokens: []*roamcardv1.OperatorToken{
		{Id: "another", Name: "bob"}, {Id: "a-token", Name: "ada"},
	}}, nil
}

// ListTransfers implements roamcardv1connect.OperatorServiceHandler.
func (a *actions) ListTransfers(
	context.Context, *roamcardv1.ListTransfersRequest,
) (*roamcardv1.ListTransfersResponse, error) {
	return &roamcardv1.ListTransfersResponse{
		Transfers: []*roamcardv1.UnmatchedTransfer{{Transaction: "0x1", Amount: "7770000"}},
	}, nil
}

// ListEsimCancellations implements roamcardv1connect.OperatorServiceHandler.
func (a *actions) ListEsimCancellations(
	context.Context, *roamcardv1.ListEsimCancellationsRequest,
) (*roamcardv1.ListEsimCancellationsResponse, error) {
	return &roamcardv1.ListEsimCancellationsResponse{
		Cancellations: []*roamcardv1.EsimCancellationJob{{OrderId: "o", RefundAmount: proto.String("391551")}, {}},
	}, nil
}

// GetGauges implements roamcardv1connect.OperatorServiceHandler.
func (a *actions) GetGauges(
	context.Context, *roamcardv1.GetGaugesRequest,
) (*roamcardv1.GetGaugesResponse, error) {
	return &roamcardv1.GetGaugesResponse{
		Floats:   []*roamcardv1.FloatGauge{{Provider: "p", Units: "-5000000"}},
		Accounts: []*roamcardv1.AccountGauge{{Name: "payee", Units: proto.String("12500001")}},
	}, nil
}

// TestAmountsAreShownInDollars; JSON has them as the API does.
func TestAmountsAreShownInDollars(t *testing.T) {
	serving(t, &actions{})
	for args, want := range map[string][2]string{
		"transfers list":               {" USDC ", " 7.770000 "},
		"cancellations list":           {" REFUND USDC ", " 0.391551"},
		"gauges":                       {"p: -5.000000 USD\n", ": 12.500001 USDC\n"},
		"transfers list --output json": {`"7770000"`, ""},
	} {
		out, _, code := runWith(t, append([]string{"admin"}, strings.Fields(args)...)...)
		if code != exitOK || !strings.Contains(out, want[0]) || !strings.Contains(out, want[1]) {
			t.Errorf("%s: %d, %q", args, code, out)
		}
	}
}

// TestWrongListenerIsTold: a public listener has no routes of operators where they have one of their own.
func TestWrongListenerIsTold(t *testing.T) {
	home(t)
	public := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(public.Close)
	t.Setenv("ROAMCARD_URL", public.URL)
	cmd := root()
	cmd.SetArgs([]string{"admin", "jobs", "list"})
	err := cmd.ExecuteContext(t.Context())
	if err == nil {
		t.Fatal("listed")
	}
	var told bytes.Buffer
	if tell(&told, err, false); !strings.Contains(told.String(), "admin.addr") {
		t.Errorf("%q", told.String())
	}
}

// card is one that there is.
func (a *actions) card() *roamcardv1.OperatorCard {
	return &roamcardv1.OperatorCard{
		Id: "11111111-1111-4111-8111-111111111111", Owner: "0xthe-owner", Status: "ACTIVE", LoadedUsdCents: 2500,
	}
}

// InspectCard implements roamcardv1connect.OperatorServiceHandler.
func (a *actions) InspectCard(
	_ context.Context, req *roamcardv1.InspectCardRequest,
) (*roamcardv1.InspectCardResponse, error) {
	if req.GetId() != a.card().GetId() {
		return nil, connect.NewError(connect.CodeNotFound, "There is no card with this id.")
	}
	return &roamcardv1.InspectCardResponse{Card: a.card()}, nil
}

// TestActionIsMadeOfItsProtos: what an operator may do more is a command by what the protos say of it.
func TestActionIsMadeOfItsProtos(t *testing.T) {
	options := &descriptorpb.MethodOptions{}
	proto.SetExtension(options, roamcardv1.E_Command, []*roamcardv1.Command{{
		Name: "lamps switch-on", Short: "Switch a lamp on", Arguments: []string{"id"}, Irreversible: "It burns out.",
	}})
	proto.SetExtension(options, roamcardv1.E_Policy,
		&roamcardv1.Policy{IdempotencyHeader: roamcardv1.IdempotencyHeader_IDEMPOTENCY_HEADER_REQUIRED})
	field := func(name string, number int32) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: &name, Number: &number, Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("lamps.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("In"), Field: []*descriptorpb.FieldDescriptorProto{field("id", 1), field("reason", 2)}},
			{Name: proto.String("Out"), Field: []*descriptorpb.FieldDescriptorProto{field("id", 1)}},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("Lamps"), Method: []*descriptorpb.MethodDescriptorProto{{
				Name: proto.String("SwitchOn"), InputType: proto.String(".In"), OutputType: proto.String(".Out"), Options: options,
			}},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	subjects := map[string]*cobra.Command{}
	(&buyer{}).operations(file.Services().Get(0), subjects)
	cmd, _, err := subjects["lamps"].Find([]string{"switch-on"})
	if err != nil || cmd.Use != "switch-on LAMP" || cmd.Short != "Switch a lamp on" {
		t.Fatalf("%+v, %v", cmd, err)
	}
	for _, flag := range []string{"reason", "key", "yes", "output"} {
		if cmd.Flags().Lookup(flag) == nil {
			t.Errorf("it has no --%s", flag)
		}
	}
}
