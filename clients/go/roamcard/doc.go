// Package roamcard is the Go client of the roamcard service: it buys virtual cards and travel eSIMs for
// USDC, and cannot pay twice by accident.
//
//	call ─► 402 ─► terms checked ─► policy ─► budget taken ─► signed once, kept ─► sent
//	─► the answer, or the same bytes again
//
// Every paid call is made under an idempotency key. What is signed for a key is in the store before its
// first byte leaves, so that an answer which is lost, a 503, a timeout or a crash are all met the same way: by
// calling again with the same key.
//
//	signer, err := roamcard.NewKeySigner(os.Getenv("WALLET_KEY"))
//	client, err := roamcard.New(roamcard.Config{
//		BaseURL: "https://api.example.com",
//		Signer:  signer,
//		Policy:  roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 2500, MaxPerDay: 10_000},
//	})
//	bought, err := client.Cards.Purchase(ctx, "my-first-card")
package roamcard
