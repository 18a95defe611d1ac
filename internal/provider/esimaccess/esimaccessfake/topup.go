package esimaccessfake

import "unicode/utf8"

// topupPrefix begins the codes of packages that are added to profiles. What follows is the package that made one.
const topupPrefix = "TOPUP_"

// addable are the packages that can be added to a profile: those of its location that have a total of data.
func (s *Server) addable(iccid string) []Package {
	all := []Package{}
	for _, o := range s.orders {
		if o.iccid != iccid || !o.open() {
			continue
		}
		for _, p := range s.packages {
			if p.LocationCode == o.Location && p.DataType == 1 {
				p.Code, p.Slug = topupPrefix+p.Code, ""
				all = append(all, p)
			}
		}
	}
	return all
}

// open reports whether a profile takes more data.
func (o *Order) open() bool {
	return o.ESIMStatus == allocated || o.ESIMStatus == "IN_USE" || o.ESIMStatus == "USED_UP"
}

func (s *Server) topup(body []byte) (any, error) {
	var asked struct {
		ProfileNo   string `json:"esimTranNo"`
		ICCID       string `json:"iccid"`
		Code        string `json:"packageCode"`
		Transaction string `json:"transactionId"`
		Amount      *int64 `json:"amount"`
	}
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	if asked.Transaction == "" || asked.Code == "" || asked.ProfileNo+asked.ICCID == "" {
		return nil, &problem{codeMissing, "esimTranNo or iccid, packageCode and transactionId are mandatory"}
	}
	if utf8.RuneCountInString(asked.Transaction) > 50 {
		return nil, &problem{codeLength, "transactionId is of at most 50 characters"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.now())
	for _, o := range s.orders {
		// The same transactionId is the same request, whatever it asks for.
		for _, t := range o.Topups {
			if t.Transaction == asked.Transaction {
				return o.toppedUp(t), nil
			}
		}
	}
	for _, o := range s.orders {
		if o.ProfileNo != asked.ProfileNo && (asked.ICCID == "" || o.iccid != asked.ICCID) {
			continue
		}
		if !o.open() {
			return nil, &problem{codeStatus, "this operation is not allowed due to the order status"}
		}
		for _, p := range s.addable(o.iccid) {
			if p.Code == asked.Code {
				return s.add(o, p, asked.Transaction, asked.Amount)
			}
		}
		return nil, &problem{codeNoPackage, "top up package code:[" + asked.Code + "] doesn`t exist."}
	}
	return nil, &problem{codeMissing, "there is no such profile"}
}

func (s *Server) add(o *Order, p Package, transaction string, amount *int64) (any, error) {
	switch {
	case amount != nil && *amount != p.Price:
		return nil, &problem{codeAmount, "total order price amount is wrong, check prices"}
	case p.SoldOut:
		return nil, &problem{codeStock, "insufficient available profiles for the package"}
	case s.balance < p.Price:
		return nil, &problem{codeBalance, "insufficient account balance"}
	}
	t := Topup{
		Transaction: transaction, Package: p.Code, Price: p.Price, Volume: p.Volume, Days: p.Duration, At: s.now().UTC(),
	}
	s.balance -= p.Price
	o.Topups = append(o.Topups, t)
	if o.ESIMStatus == "USED_UP" {
		o.ESIMStatus = "IN_USE"
	}
	return o.toppedUp(t), nil
}

func (o *Order) toppedUp(t Topup) any {
	return map[string]any{
		"transactionId": t.Transaction, "iccid": o.iccid, "expiredTime": o.At.AddDate(0, 0, 180).Format(stamp),
		"totalVolume": o.volume(), "totalDuration": o.Days, "orderUsage": o.Used,
	}
}
