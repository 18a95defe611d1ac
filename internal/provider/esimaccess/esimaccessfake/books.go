package esimaccessfake

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Order is an order in the books, of one profile.
type Order struct {
	No, ProfileNo, Transaction, Package, Location string
	// Price is what was taken from the balance, and Guarded whether the request named it.
	Price   int64
	Guarded bool
	Volume  int64
	Days    int
	// ESIMStatus and SMDPStatus are the profile's.
	ESIMStatus, SMDPStatus string
	At                     time.Time
	// Used is what the profile used, in bytes, as measured at UsedAt.
	Used     int64
	UsedAt   time.Time
	DataType int
	// Hidden orders are not in lists by time: an effect that appears late.
	Hidden bool
	// Topups are what was added to the profile.
	Topups []Topup

	iccid, matchingID string
	dueAt             time.Time
}

// Topup is a package that was added to a profile.
type Topup struct {
	Transaction, Package string
	Price, Volume        int64
	Days                 int
	At                   time.Time
}

// volume is how much data a profile has in all.
func (o *Order) volume() int64 {
	all := o.Volume
	for _, t := range o.Topups {
		all += t.Volume
	}
	return all
}

const (
	allocating = "GETTING_RESOURCE"
	allocated  = "GOT_RESOURCE"
	cancelled  = "CANCEL"
	released   = "RELEASED"
)

// Orders are all that were made, the oldest first, without the codes that fetch their profiles.
func (s *Server) Orders() []Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.now())
	all := make([]Order, len(s.orders))
	for i, o := range s.orders {
		all[i] = *o
		all[i].iccid, all[i].matchingID, all[i].Topups = "", "", slices.Clone(o.Topups)
	}
	return all
}

// Balance is what is left, in ten thousandths of a dollar.
func (s *Server) Balance() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.balance
}

// SetBalance sets what is left.
func (s *Server) SetBalance(units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.balance = units
}

// Settle ends every allocation.
func (s *Server) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		s.release(o)
	}
}

// Edit changes an order, as the vendor's staff or its owner's device would.
func (s *Server) Edit(no string, how func(*Order)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.orders, func(o *Order) bool { return o.No == no })
	if i < 0 {
		panic("esimaccessfake: there is no order " + no)
	}
	how(s.orders[i])
}

// Add puts an order into the books that somebody else made, such as another program of the account.
func (s *Server) Add(transaction, code string) Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.make(transaction, s.packages[s.find(code)], false)
	s.release(o)
	return *o
}

func (s *Server) advance(now time.Time) {
	for _, o := range s.orders {
		if !o.dueAt.After(now) {
			s.release(o)
		}
	}
}

func (s *Server) release(o *Order) {
	if o.ESIMStatus == allocating {
		o.ESIMStatus, o.SMDPStatus = allocated, released
	}
}

func (s *Server) make(transaction string, p Package, guarded bool) *Order {
	now := s.now().UTC()
	n := len(s.orders) + 1
	o := &Order{
		No: fmt.Sprintf("B%s%04d", now.Format("060102"), n), ProfileNo: fmt.Sprintf("%s%06d", now.Format("060102"), n),
		Transaction: transaction, Package: p.Code, Location: p.LocationCode, Price: p.Price, Guarded: guarded,
		Volume: p.Volume, Days: p.Duration, DataType: p.DataType, UsedAt: now, ESIMStatus: allocating, At: now,
		dueAt: now.Add(s.allocate),
		iccid: fmt.Sprintf("8943108170%09d", n), matchingID: strings.ToUpper(rand.Text()),
	}
	s.balance -= p.Price
	s.orders = append(s.orders, o)
	return o
}

func (s *Server) showBalance(body []byte) (any, error) {
	var asked struct{}
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]any{"balance": s.balance}, nil
}

func (s *Server) order(body []byte) (any, error) {
	var asked struct {
		Transaction string `json:"transactionId"`
		Amount      *int64 `json:"amount"`
		Packages    []struct {
			Code   string `json:"packageCode"`
			Slug   string `json:"slug"`
			Count  int    `json:"count"`
			Price  *int64 `json:"price"`
			Period int    `json:"periodNum"`
		} `json:"packageInfoList"`
	}
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	if asked.Transaction == "" || len(asked.Packages) == 0 {
		return nil, &problem{codeMissing, "transactionId and packageInfoList are mandatory"}
	}
	if utf8.RuneCountInString(asked.Transaction) > 50 || len(asked.Packages) != 1 || asked.Packages[0].Count != 1 {
		return nil, &problem{codeLength, "this server takes one package, once, and 50 characters of transactionId"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.now())
	// The same transactionId is the same request, whatever it asks for.
	for _, o := range s.orders {
		if o.Transaction == asked.Transaction {
			return orderBody(o), nil
		}
	}
	line := asked.Packages[0]
	at := s.find(line.Code + line.Slug)
	if at >= 0 && (line.Period > 0) != (s.packages[at].DataType != 1) {
		return nil, &problem{codeMissing, "periodNum is mandatory for daily plans, and for them alone"}
	}
	switch {
	case at < 0:
		return nil, &problem{codeNoPackage, "base data plan code:[" + line.Code + "] doesn`t exist."}
	case line.Price != nil && *line.Price != s.packages[at].Price:
		return nil, &problem{codePrice, "package price error, check price"}
	case asked.Amount != nil && *asked.Amount != s.packages[at].Price:
		return nil, &problem{codeAmount, "total order price amount is wrong, check prices"}
	case s.packages[at].SoldOut:
		return nil, &problem{codeStock, "insufficient available profiles for the package"}
	case s.balance < s.packages[at].Price:
		return nil, &problem{codeBalance, "insufficient account balance"}
	}
	return orderBody(s.make(asked.Transaction, s.packages[at], line.Price != nil && asked.Amount != nil)), nil
}

func orderBody(o *Order) any {
	return map[string]any{"orderNo": o.No, "transactionId": o.Transaction}
}

func (s *Server) query(body []byte) (any, error) {
	var asked struct {
		OrderNo   string `json:"orderNo"`
		ProfileNo string `json:"esimTranNo"`
		ICCID     string `json:"iccid"`
		Start     string `json:"startTime"`
		End       string `json:"endTime"`
		Pager     *struct {
			Size int `json:"pageSize"`
			Num  int `json:"pageNum"`
		} `json:"pager"`
	}
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	if asked.Pager == nil || asked.Pager.Size < 5 || asked.Pager.Size > 500 || asked.Pager.Num < 1 ||
		asked.Pager.Num > 10_000 {
		return nil, &problem{codeMissing, "pager is mandatory: pageSize 5 to 500, pageNum 1 to 10000"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.now())
	var found []*Order
	switch {
	case asked.OrderNo != "":
		i := slices.IndexFunc(s.orders, func(o *Order) bool { return o.No == asked.OrderNo })
		if i < 0 {
			return nil, &problem{codeNoOrder, "the orderNo does not exist"}
		}
		if s.orders[i].ESIMStatus == allocating {
			return nil, &problem{codeAllocating, "profile is being downloaded for the order"}
		}
		found = s.orders[i : i+1]
	case asked.ProfileNo != "" || asked.ICCID != "":
		for _, o := range s.orders {
			if o.ProfileNo == asked.ProfileNo || o.iccid == asked.ICCID {
				found = append(found, o)
			}
		}
	default:
		// The form that is documented; another is refused, so that a client cannot come to rely on it.
		const form = "2006-01-02T15:04-07:00"
		from, err := time.Parse(form, asked.Start)
		to, err2 := time.Parse(form, asked.End)
		if err != nil || err2 != nil {
			return nil, &problem{codeMissing, "orderNo, esimTranNo, iccid, or startTime and endTime are mandatory"}
		}
		for _, o := range s.orders {
			if !o.At.Before(from) && o.At.Before(to) && !o.Hidden && !(s.hide && o.ESIMStatus == allocating) {
				found = append(found, o)
			}
		}
	}
	from := min((asked.Pager.Num-1)*asked.Pager.Size, len(found))
	shown := []any{}
	for _, o := range found[from:min(from+asked.Pager.Size, len(found))] {
		shown = append(shown, profileBody(o))
	}
	return map[string]any{
		"esimList": shown,
		"pager":    map[string]any{"pageSize": asked.Pager.Size, "pageNum": asked.Pager.Num, "total": len(found)},
	}, nil
}

// stamp is the vendor's form of a time in answers.
const stamp = "2006-01-02T15:04:05-0700"

func profileBody(o *Order) any {
	body := map[string]any{
		"esimTranNo": o.ProfileNo, "orderNo": o.No, "transactionId": o.Transaction, "imsi": nil, "iccid": nil,
		"smsStatus": 0, "msisdn": "", "ac": nil, "qrCodeUrl": nil, "smdpStatus": o.SMDPStatus, "eid": "", "activeType": 2,
		"dataType": o.DataType, "activateTime": nil, "expiredTime": o.At.AddDate(0, 0, 180).Format(stamp),
		"totalVolume":   o.volume(),
		"totalDuration": o.Days, "durationUnit": "DAY", "orderUsage": 0, "esimStatus": o.ESIMStatus, "pin": "", "puk": "",
		"apn": "internet",
		"packageList": []any{map[string]any{
			"packageCode": o.Package, "duration": o.Days, "volume": o.Volume, "locationCode": o.Location,
			"createTime": o.At.Format(stamp), "esimTranNo": o.ProfileNo, "transactionId": o.Transaction,
		}},
	}
	packages := body["packageList"].([]any)
	for _, t := range o.Topups {
		packages = append(packages, map[string]any{
			"packageCode": t.Package, "duration": t.Days, "volume": t.Volume, "locationCode": o.Location,
			"createTime": t.At.Format(stamp), "esimTranNo": o.ProfileNo, "transactionId": t.Transaction,
		})
	}
	body["packageList"] = packages
	if o.ESIMStatus != allocating {
		body["iccid"], body["imsi"] = o.iccid, "310840118124583"
		body["ac"] = "LPA:1$rsp.esimaccess.example$" + o.matchingID
		body["qrCodeUrl"] = "https://qr.esimaccess.example/" + o.matchingID + ".png"
	}
	return body
}

func (s *Server) usage(body []byte) (any, error) {
	var asked struct {
		Profiles []string `json:"esimTranNoList"`
	}
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	if len(asked.Profiles) == 0 || len(asked.Profiles) > 10 {
		return nil, &problem{codeMissing, "esimTranNoList is mandatory, of at most 10"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := []any{}
	for _, o := range s.orders {
		if slices.Contains(asked.Profiles, o.ProfileNo) {
			shown = append(shown, map[string]any{
				"esimTranNo": o.ProfileNo, "dataUsage": o.Used, "totalData": o.volume(), "lastUpdateTime": o.UsedAt.Format(stamp),
			})
		}
	}
	return map[string]any{"esimUsageList": shown}, nil
}

func (s *Server) cancel(body []byte) (any, error) {
	var asked struct {
		ProfileNo string `json:"esimTranNo"`
		ICCID     string `json:"iccid"`
	}
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.now())
	for _, o := range s.orders {
		if o.ProfileNo != asked.ProfileNo && (asked.ICCID == "" || o.iccid != asked.ICCID) {
			continue
		}
		if o.ESIMStatus != allocated || o.SMDPStatus != released {
			return nil, &problem{codeStatus, "this operation is not allowed due to the order status"}
		}
		o.ESIMStatus = cancelled
		s.balance += o.Price
		return struct{}{}, nil
	}
	return nil, &problem{codeMissing, "esimTranNo or iccid is mandatory"}
}
