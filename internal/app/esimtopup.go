package app

import (
	"errors"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/transport/rpc"
)

func esimTopupRegistration() Registration {
	return Registration{
		Rows: store.EsimTopupProduct(), Make: (*App).esimTopups, Provided: (*App).esimTopupsProvided,
	}
}

// esimTopups makes the sale of more data over the suppliers of eSIMs. The eSIMs' service has its methods.
func (a *App) esimTopups(p *Parts) (Made, error) {
	topups, ok := p.second[esim.TopupKind].(*esim.Topups)
	if !ok {
		return Made{}, errors.New("the eSIMs are made before more data for them")
	}
	return Made{Product: topups, View: rpc.EsimTopupView(topups.Esims), Describe: rpc.DescribeEsimTopups}, nil
}

// esimTopupsProvided is what the suppliers have added to eSIMs.
func (a *App) esimTopupsProvided() (reconcile.Product, error) {
	books, err := a.supplierBooks()
	if err != nil {
		return nil, err
	}
	return esim.IssuedTopups{Books: books, Plans: a.store.Esims(), Accounts: a.store.Esims()}, nil
}
