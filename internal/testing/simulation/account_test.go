package simulation_test

import (
	"context"
	"encoding/binary"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/smartaccount/smartaccounttest"
	"github.com/roamcard/roamcard/internal/testing/history"
	"github.com/roamcard/roamcard/internal/x402"
)

// account is a buyer's smart account. It has two owners: the buyer's own key, until that is removed, and another one.
type account struct {
	smartaccounttest.Account
	// undeployed says that its first payment has to make it; else creation is the transaction that does.
	undeployed bool
	creation   common.Hash
	// signing is the place of the owner that signs.
	signing atomic.Int32
	// signedFor are the nonces of the authorizations that the first owner has signed.
	signedFor []string
}

// smartAccount makes the buyer's wallet a smart account, in worlds that have some.
func (b *buyer) smartAccount() {
	w := b.world
	rng := diceOf(w.plan.seed, uint64(7000+b.nth))
	if !w.plan.smart || rng.IntN(3) == 0 {
		return
	}
	var secret [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(secret[8*i:], rng.Uint64())
	}
	owner, other := smartaccounttest.Key{Private: b.key}, smartaccounttest.Key{Private: crypto.ToECDSAUnsafe(secret[:])}
	b.account = &account{
		Account: smartaccounttest.New(x402.ChainID, int64(b.nth), owner, other),
		// What a block that is replaced has made may be gone.
		undeployed: rng.IntN(2) == 0 || w.plan.reorganisations > 0,
	}
	if !b.account.undeployed {
		b.account.creation = w.chain.Execute(common.Address(b.address), smartaccounttest.Factory, b.account.CreateCall())
	}
	b.address = b.account.Address
}

// made waits until every node shows the account, unless its first payment makes it.
func (b *buyer) made() {
	if b.account == nil || b.account.undeployed {
		return
	}
	for b.world.chain.Receipt(b.account.creation) == nil {
		time.Sleep(time.Second)
	}
	time.Sleep(2 * farthest * time.Second) // at two seconds to a block
}

// signed is the account's signature of a digest.
func (a *account) signed(digest x402.Hash) x402.Signature {
	at := int(a.signing.Load())
	if a.undeployed {
		return a.SignUndeployed(at, digest)
	}
	return a.Sign(at, digest)
}

// sender is who sends what the buyer has signed to the chain. A smart account sends nothing itself: an address that has
// sent something before it is made cannot be made any more, as when the block of its creation is replaced.
func (b *buyer) sender() x402.Address {
	if b.account == nil {
		return b.address
	}
	return x402.Address(common.BytesToAddress(b.account.Owners[1].Bytes()))
}

// removesOwner takes from the account the owner that has signed so far. What it has signed moves nothing any more, and
// the other one signs from now on.
func (b *buyer) removesOwner() {
	if b.account.signing.Swap(1) == 1 {
		return
	}
	w, other := b.world, common.BytesToAddress(b.account.Owners[1].Bytes())
	w.mu.Lock()
	for _, nonce := range b.account.signedFor {
		w.removed[nonce] = time.Now()
	}
	w.mu.Unlock()
	w.bus.note("the owner of %s is removed", b.address)
	if b.account.undeployed {
		w.chain.Execute(other, smartaccounttest.Factory, b.account.CreateCall())
	}
	w.chain.Execute(other, common.Address(b.address), b.account.RemoveCall(0))
}

// binding are the answers that must agree with each other: all but refusals of what a removed owner has signed and
// which has claimed nothing. Whoever sends that proves nothing any more, and is told nothing of the account's orders.
func (w *world) binding(ctx context.Context) ([]history.Event, error) {
	if len(w.removed) == 0 {
		return w.seen, nil
	}
	conn, err := w.db.look(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, "SELECT nonce FROM payments")
	if err != nil {
		return nil, err
	}
	claimed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return slices.DeleteFunc(slices.Clone(w.seen), func(e history.Event) bool {
		at, removed := w.removed[e.Nonce]
		return removed && e.Status == http.StatusPaymentRequired && e.To.After(at) && !slices.Contains(claimed, e.Nonce)
	}), err
}

// cancelled is the account's call by which it takes an authorization back.
func (a *account) cancelled(nonce, digest x402.Hash) []byte {
	signature := []byte(a.Sign(int(a.signing.Load()), digest))
	word, size := a.Address.Word(), x402.Hash{}
	binary.BigEndian.PutUint64(size[24:], uint64(len(signature)))
	offset := x402.Hash{31: 96}
	return slices.Concat(crypto.Keccak256([]byte("cancelAuthorization(address,bytes32,bytes)"))[:4], word[:], nonce[:],
		offset[:], size[:], common.RightPadBytes(signature, (len(signature)+31)/32*32))
}
