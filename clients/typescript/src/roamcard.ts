// The client: what a buyer does, and what an operator does.
import { Admin } from "./admin.js";
import { Buyer } from "./buyer.js";
import { Connection, type RoamcardOptions } from "./connection.js";

/** A client of one service for one wallet. */
export class Roamcard extends Buyer {
  /** What an operator does. */
  readonly admin: Admin;

  constructor(options: RoamcardOptions) {
    const connection = new Connection(options);
    super(options, connection);
    this.admin = new Admin(connection);
  }
}
