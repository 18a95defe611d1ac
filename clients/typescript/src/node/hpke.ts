// The receiver of RFC 9180 in base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM.
import { createDecipheriv, createHmac, createPublicKey, diffieHellman, generateKeyPairSync, type KeyObject } from "node:crypto";

/** The suite as the service names it. */
export const suiteName = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM";

const kem = Buffer.from("KEM\x00\x20", "latin1");
const suite = Buffer.from("HPKE\x00\x20\x00\x01\x00\x02", "latin1");
const none = Buffer.alloc(0);
const tagBytes = 16;

/** A key pair made for one message. */
export class Recipient {
  /** The public key: 32 bytes. */
  readonly publicKey: Buffer;
  readonly #privateKey: KeyObject;

  constructor() {
    const { publicKey, privateKey } = generateKeyPairSync("x25519");
    this.publicKey = Buffer.from(publicKey.export({ format: "jwk" }).x!, "base64url");
    this.#privateKey = privateKey;
  }

  /** Opens what was sealed to this key; throws unless key, info and associated data are right. */
  open(enc: Buffer, ciphertext: Buffer, info: Buffer, aad: Buffer): Buffer {
    const ephemeral = createPublicKey({ key: { kty: "OKP", crv: "X25519", x: enc.toString("base64url") }, format: "jwk" });
    const dh = diffieHellman({ privateKey: this.#privateKey, publicKey: ephemeral });
    const shared = expand(kem, extract(kem, none, "eae_prk", dh), "shared_secret", Buffer.concat([enc, this.publicKey]), 32);
    const context = Buffer.concat([Buffer.of(0), extract(suite, none, "psk_id_hash", none), extract(suite, none, "info_hash", info)]);
    const secret = extract(suite, shared, "secret", none);
    const decipher = createDecipheriv("aes-256-gcm", expand(suite, secret, "key", context, 32), expand(suite, secret, "base_nonce", context, 12));
    decipher.setAAD(aad).setAuthTag(ciphertext.subarray(-tagBytes));
    return Buffer.concat([decipher.update(ciphertext.subarray(0, -tagBytes)), decipher.final()]);
  }
}

function extract(id: Buffer, salt: Buffer, label: string, input: Buffer): Buffer {
  return createHmac("sha256", salt).update("HPKE-v1").update(id).update(label).update(input).digest();
}

// Every output here is at most one block of SHA-256, so HKDF-Expand is one step.
function expand(id: Buffer, key: Buffer, label: string, info: Buffer, length: number): Buffer {
  const head = Buffer.concat([Buffer.of(length >> 8, length & 255), Buffer.from("HPKE-v1"), id, Buffer.from(label), info]);
  return createHmac("sha256", key).update(head).update(Buffer.of(1)).digest().subarray(0, length);
}
