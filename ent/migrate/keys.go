package migrate

import "entgo.io/ent/dialect/sql/schema"

// byOwner are the tables whose rows belong to orders, and are distributed by the orders' owners.
var byOwner = []*schema.Table{
	OrdersTable, PaymentsTable, RefundsTable, ReservationsTable, CardsTable, EsimProfilesTable, EsimTokensTable,
	EsimTopupsTable, ReceiptsTable, TimelineTable, LedgerPostingsTable, LedgerEntriesTable, JobsTable,
}

// A primary key of two columns is nothing that ent can declare: its code looks rows up by id, which comes first.
func init() {
	for _, t := range byOwner {
		for _, c := range t.Columns {
			if c.Name == "owner" {
				t.PrimaryKey = append(t.PrimaryKey, c)
			}
		}
	}
}
