// Sizes of data, as people write them.
import type { EsimPlan } from "roamcard";
import { texts } from "../lib/text.js";

/** How much data a plan has. */
export function dataOf({ unlimited, dataMb = 0 }: Pick<EsimPlan, "unlimited" | "dataMb">): string {
  return unlimited ? texts.shop.unlimited : sizeOf(dataMb * 1024 * 1024);
}

/** A size of data, in units of 1024. */
export function sizeOf(bytes: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  let size = bytes;
  for (; size >= 1024 && at < units.length - 1; at++) size /= 1024;
  const format = new Intl.NumberFormat(texts.lang, { maximumFractionDigits: size < 10 ? 1 : 0 });
  return `${format.format(size)} ${units[at]}`;
}
