// Command connect-go is a service of its own that reads roamcard over Connect, with the generated clients that
// our Go client has:
//
//	ROAMCARD_URL=http://127.0.0.1:8402 WALLET_KEY=0x… go run ./examples/connect-go
//
// It has one endpoint, GET /overview?country=FR&order=ORDER: whether eSIMs are sold, what they cost, and how an order
// of the wallet stands.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	signer, err := roamcard.NewKeySigner(os.Getenv("WALLET_KEY"))
	if err != nil {
		return fmt.Errorf("read WALLET_KEY: %w", err)
	}
	origin := cmp.Or(os.Getenv("ROAMCARD_URL"), "http://127.0.0.1:8402")
	// Its services are the generated Connect clients. What belongs to a wallet signs in by itself; nothing is paid,
	// because there is no policy that allows it.
	client, err := roamcard.New(roamcard.Config{BaseURL: origin, Signer: signer, Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8090"))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /overview", &overview{client.Services})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Printf("http://%s/overview reads %s for %s\n", listener.Addr(), origin, signer.Address())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// overview answers GET /overview.
type overview struct{ roamcard.Services }

// answer is the JSON of this service. It is not the message of another one: that may change without asking us.
type answer struct {
	Sale  string `json:"sale"`
	Plans []plan `json:"plans"`
	Order *order `json:"order,omitempty"`
}

type plan struct {
	Name     string `json:"name"`
	Days     uint32 `json:"days"`
	USDCents uint32 `json:"usdCents"`
}

type order struct {
	ID         string `json:"id"`
	Status     string `json:"status"`
	PayableURL string `json:"payableUrl,omitempty"`
}

// ServeHTTP implements http.Handler. The context of the request ends the calls that it makes.
func (o *overview) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, err := o.read(r.Context(), r.FormValue("country"), r.FormValue("order"))
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(found) // the caller has gone
}

func (o *overview) read(ctx context.Context, country, orderID string) (*answer, error) {
	status, err := o.Runtime.GetStatus(ctx, &roamcardv1.GetStatusRequest{})
	if err != nil {
		return nil, fmt.Errorf("read the status: %w", err)
	}
	found := &answer{Sale: "unknown"}
	for _, product := range status.GetProducts() {
		if product.GetProduct() == "esim" {
			found.Sale = product.GetStatus()
		}
	}
	plans, err := o.Esim.ListEsimPlans(ctx, &roamcardv1.ListEsimPlansRequest{CountryCode: &country})
	if err != nil {
		return nil, fmt.Errorf("list the plans: %w", err)
	}
	for _, p := range plans.GetPlans() {
		found.Plans = append(found.Plans, plan{p.GetName(), p.GetValidityDays(), p.GetPriceUsdCents()})
	}
	if orderID == "" {
		return found, nil
	}
	got, err := o.Order.GetOrder(ctx, &roamcardv1.GetOrderRequest{OrderId: orderID})
	if err != nil {
		return nil, fmt.Errorf("read the order: %w", err)
	}
	found.Order = &order{orderID, got.GetOrder().GetStatus(), got.GetOrder().GetPayableUrl()}
	return found, nil
}

// fail answers with what the caller can act on, and logs the rest.
func fail(w http.ResponseWriter, err error) {
	refused, _ := errors.AsType[*roamcard.APIError](err)
	switch {
	case refused != nil && refused.Status == http.StatusBadRequest:
		http.Error(w, "there is no such country", http.StatusBadRequest)
	case errors.Is(err, roamcard.ErrNotFound): // an order of another wallet, too
		http.Error(w, "there is no such order", http.StatusNotFound)
	default:
		log.Print(err)
		http.Error(w, "roamcard does not answer", http.StatusBadGateway)
	}
}
