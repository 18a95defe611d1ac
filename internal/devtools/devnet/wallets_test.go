package devnet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWalletsAreTheMnemonicsAccountsInOrder(t *testing.T) {
	wallets := Wallets()
	type named struct{ Address, PrivateKey string }
	got := []named{
		{wallets[0].Address, wallets[0].PrivateKey},
		{wallets[9].Address, wallets[9].PrivateKey},
	}
	// As Hardhat and anvil print them.
	want := []named{
		{"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"},
		{"0xa0Ee7A142d267C1f36714E4a8F75612F20a79720", "0x2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRolesAreFixedByIndex(t *testing.T) {
	got := map[Role][]int{}
	for i, w := range Wallets() {
		got[w.Role] = append(got[w.Role], i)
	}
	want := map[Role][]int{
		RoleBuyer:    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19},
		RoleRelayer:  {20, 21, 22},
		RolePayee:    {23},
		RoleTreasury: {24},
		RoleOperator: {25},
		RoleAdmin:    {26},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
