// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// Makes smart accounts at the addresses that Coinbase Smart Wallet's factory gives them: the ERC-1967 proxy of the
/// factory's implementation, by CREATE2.
contract SmartWalletFactory {
    event AccountCreated(address indexed account, bytes[] owners, uint256 nonce);

    error OwnerRequired();

    function createAccount(bytes[] calldata owners, uint256 nonce) external payable returns (address account) {
        if (owners.length == 0) revert OwnerRequired();
        account = this.getAddress(owners, nonce);
        if (account.code.length > 0) return account;
        bytes memory code = initCode();
        bytes32 salt = keccak256(abi.encode(owners, nonce));
        assembly ("memory-safe") {
            account := create2(callvalue(), add(code, 32), mload(code), salt)
        }
        emit AccountCreated(account, owners, nonce);
        (bool ok, bytes memory answer) = account.call(abi.encodeWithSignature("initialize(bytes[])", owners));
        if (!ok) {
            assembly ("memory-safe") {
                revert(add(answer, 32), mload(answer))
            }
        }
    }

    function getAddress(bytes[] calldata owners, uint256 nonce) external view returns (address) {
        bytes32 salt = keccak256(abi.encode(owners, nonce));
        return address(uint160(uint256(keccak256(abi.encodePacked(hex"ff", address(this), salt, initCodeHash())))));
    }

    /// The wallet that new accounts run: that of version 1.1 for its factory, else that of version 1.
    function implementation() public view returns (address) {
        return address(this) == 0xBA5ED110eFDBa3D005bfC882d75358ACBbB85842
            ? 0x00000110dCdEdC9581cb5eCB8467282f2926534d
            : 0x000100abaad02f1cfC8Bbe32bD5a564817339E72;
    }

    function initCodeHash() public view returns (bytes32) {
        return keccak256(initCode());
    }

    function initCode() private view returns (bytes memory) {
        return abi.encodePacked(
            hex"603d3d8160223d3973",
            implementation(),
            hex"60095155f3363d3d373d3d363d7f360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc",
            hex"545af43d6000803e6038573d6000fd5b3d6000f3"
        );
    }
}
